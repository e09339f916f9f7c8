mod circle;
mod ntt;
mod spread;

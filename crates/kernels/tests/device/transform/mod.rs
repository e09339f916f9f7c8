mod circle;
mod ntt;
mod short;
mod spread;

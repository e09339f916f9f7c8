mod circle;
mod ntt;

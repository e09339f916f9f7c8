mod constants;
mod merkle;
mod rows;

mod merkle;
mod rows;

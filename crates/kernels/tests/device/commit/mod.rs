mod constants;
mod merkle;
mod queries;
mod rows;

mod constants;
mod mask;
mod merkle;
mod queries;
mod rows;

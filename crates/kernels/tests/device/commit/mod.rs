mod merkle;
mod queries;
mod rows;

mod circle_opening;
mod circle_quotients;
mod opening;

mod circle_opening;
mod circle_quotients;
mod deep;
mod evaluate;
mod multi_opening;
mod opening;

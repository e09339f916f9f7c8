mod gather;
mod permute;

// Panics.
#include "guest.h"

int main(void) { guest_panic("this guest fails on purpose"); }

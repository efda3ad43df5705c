// A library with nothing in it: only its name and what it is linked to count.
int tensortap_test_empty;

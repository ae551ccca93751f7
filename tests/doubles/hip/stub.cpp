extern "C" __attribute__((visibility("default"))) int hipInit(unsigned) {
  return 0;
}

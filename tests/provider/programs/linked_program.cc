// A verbs program that is linked with the library instead of having it preloaded: finds a device, opens it, makes a
// completion channel. Run by programs_test.
#include <infiniband/verbs.h>

#include <cstdio>

int main() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr || count == 0) return 1;
  ibv_context* context = ibv_open_device(list[0]);
  if (context == nullptr) return 2;
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  if (channel == nullptr) return 3;
  std::puts(ibv_get_device_name(list[0]));
  ibv_destroy_comp_channel(channel);
  ibv_close_device(context);
  ibv_free_device_list(list);
  return 0;
}

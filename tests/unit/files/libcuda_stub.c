/* A libcuda for tests: the calls of the smoke script, on the host's memory. Compiled with -DINIT=803 and the like to fail. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef INIT
#define INIT 0
#endif
#ifndef COUNT
#define COUNT 2
#endif
#ifndef MAJOR
#define MAJOR 9
#endif
#ifndef OFFSET
#define OFFSET 1.0f
#endif

int cuInit(unsigned flags) { (void)flags; return INIT; }
int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
int cuDeviceGetCount(int *count) { *count = COUNT; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int size, int device) { (void)device; strncpy(name, "NVIDIA Stub", (size_t)size); return 0; }
int cuDeviceGetAttribute(int *answer, int attribute, int device) { (void)device; *answer = attribute == 75 ? MAJOR : 0; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = context; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return 0; }
int cuCtxSetCurrent(void *context) { (void)context; return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuModuleLoadData(void **module, const void *image) {
  *module = module;
  return strstr((const char *)image, ".entry scale(") ? 0 : 218;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  *function = module;
  return strcmp(name, "scale") ? 500 : 0;
}
int cuModuleUnload(void *module) { (void)module; return 0; }
int cuMemAlloc_v2(uint64_t *memory, size_t size) { *memory = (uint64_t)(uintptr_t)malloc(size); return 0; }
int cuMemFree_v2(uint64_t memory) { free((void *)(uintptr_t)memory); return 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { memcpy((void *)(uintptr_t)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)(uintptr_t)from, size); return 0; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **arguments, void **extra) {
  (void)function; (void)gy; (void)gz; (void)by; (void)bz; (void)shared; (void)stream; (void)extra;
  float *data = (float *)(uintptr_t) * (uint64_t *)arguments[0], factor = *(float *)arguments[1];
  unsigned count = *(unsigned *)arguments[2];
  for (unsigned index = 0; index < gx * bx && index < count; index++) data[index] = data[index] * factor + OFFSET;
  return 0;
}

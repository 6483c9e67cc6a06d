/* A stand-in for libnvidia-ml.so.1, of which pynvml calls what is here: one H200 in MIG mode and one GB10 without memory of its own.
   STUB_INIT is what nvmlInit returns (9: the driver is not loaded, 18: library and module are of different versions), STUB_COUNT how many
   of the two there are. */
#include <stdio.h>
#include <stdlib.h>

typedef struct { unsigned long long total, free, used; } memory_t;

static int gpus[2] = {0, 1};

static int index_of(void *handle) { return *(int *)handle; }

int nvmlInitWithFlags(unsigned int flags) { (void)flags; char *code = getenv("STUB_INIT"); return code ? atoi(code) : 0; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { (void)code; return "as the stub was told"; }
int nvmlSystemGetDriverVersion(char *text, unsigned int size) { snprintf(text, size, "580.65.06"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return 0; }
int nvmlDeviceGetCount_v2(unsigned int *count) { char *given = getenv("STUB_COUNT"); *count = given ? (unsigned)atoi(given) : 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) { *handle = &gpus[index]; return index < 2 ? 0 : 2; }
int nvmlDeviceGetName(void *handle, char *text, unsigned int size) {
  snprintf(text, size, index_of(handle) ? "NVIDIA GB10" : "NVIDIA H200");
  return 0;
}
int nvmlDeviceGetUUID(void *handle, char *text, unsigned int size) { snprintf(text, size, "GPU-%d", index_of(handle)); return 0; }
int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) {
  if (index_of(handle)) return 3; /* not supported */
  memory->total = 143771ULL << 20;
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
  *major = index_of(handle) ? 12 : 9;
  *minor = index_of(handle) ? 1 : 0;
  return 0;
}
int nvmlDeviceGetMigMode(void *handle, unsigned int *current, unsigned int *pending) {
  if (index_of(handle)) return 3;
  *current = *pending = 1;
  return 0;
}

/* A stand-in for libnvidia-ml.so.1: the few calls that vmctl makes, for one card with two vGPUs.
 *
 * NVML_STAND_IN picks what goes wrong: "none" | "no-driver" | "hang" | "mig" | "lost" | "old".
 * Structures are NVML's own, in as many bytes as its header gives them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, SMALL = 7, NO_DRIVER = 9, NO_FUNCTION = 13, LOST = 15 };

static int mode(const char *wanted) {
    const char *set = getenv("NVML_STAND_IN");
    return set != NULL && strcmp(set, wanted) == 0;
}

static int fill(char *into, unsigned length, const char *text) {
    snprintf(into, length, "%s", text);
    return OK;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return mode("no-driver") ? NO_DRIVER : OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int status) { return status == NOT_SUPPORTED ? "Not Supported" : "GPU is lost"; }
int nvmlSystemGetDriverVersion(char *into, unsigned length) { return fill(into, length, "570.86.10"); }

int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = (void *)(uintptr_t)(index + 1);
    return index == 1 ? LOST : OK; /* the second card fell off the bus */
}

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
int nvmlDeviceGetPciInfo_v3(void *handle, pci_t *info) {
    (void)handle;
    memset(info, 0, sizeof *info);
    return fill(info->bus_id, sizeof info->bus_id, "00000000:41:00.0");
}
int nvmlDeviceGetVirtualizationMode(void *handle, unsigned *told) { (void)handle; *told = 3; return OK; }
int nvmlDeviceGetUUID(void *handle, char *into, unsigned length) {
    (void)handle;
    return fill(into, length, "GPU-00000000-0000-0000-0000-000000000001");
}
int nvmlDeviceGetName(void *handle, char *into, unsigned length) {
    (void)handle;
    if (mode("hang"))
        for (;;)
            pause();
    return fill(into, length, "NVIDIA L40S");
}
int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *then) {
    (void)handle;
    *now = *then = 1;
    return mode("mig") ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetEccMode(void *handle, unsigned *now, unsigned *then) {
    (void)handle;
    *now = 1;
    *then = 0;
    return mode("lost") ? LOST : OK;
}
typedef struct { unsigned version, mode; } switch_t;
int nvmlDeviceGetVgpuHeterogeneousMode(void *handle, switch_t *told) {
    (void)handle;
    told->mode = 1;
    return mode("mig") ? NOT_SUPPORTED : OK;
}
typedef struct { unsigned policy, arr, average, time_slice; } scheduler_t;
#ifndef OLD
int nvmlDeviceGetVgpuSchedulerState(void *handle, scheduler_t *told) {
    (void)handle;
    *told = (scheduler_t){2, 2, 33, 2083333};
    return OK;
}
#endif

/* Types: 1155 takes half of the card, 1150 a twelfth. */
int nvmlDeviceGetSupportedVgpus(void *handle, unsigned *count, unsigned *into) {
    (void)handle;
    if (into == NULL) { *count = 2; return SMALL; }
    into[0] = 1155;
    into[1] = 1150;
    return OK;
}
int nvmlVgpuTypeGetName(unsigned type, char *into, unsigned *length) {
    return fill(into, *length, type == 1155 ? "NVIDIA L40S-24Q" : "NVIDIA L40S-4Q");
}
int nvmlVgpuTypeGetFramebufferSize(unsigned type, unsigned long long *told) {
    *told = (type == 1155 ? 24576ULL : 4096ULL) << 20;
    return OK;
}
int nvmlVgpuTypeGetMaxInstances(void *handle, unsigned type, unsigned *told) {
    (void)handle;
    *told = type == 1155 ? 2 : 12;
    return OK;
}
int nvmlVgpuTypeGetGpuInstanceProfileId(unsigned type, unsigned *told) { (void)type; *told = 0xFFFFFFFF; return OK; }
typedef struct { unsigned version, size, count; unsigned *ids; unsigned mode; } places_t;
int nvmlDeviceGetVgpuTypeSupportedPlacements(void *handle, unsigned type, places_t *told) {
    (void)handle;
    told->size = type == 1155 ? 24 : 4;
    told->count = 2;
    told->ids[0] = 0;
    told->ids[1] = told->size;
    return OK;
}
int nvmlDeviceGetVgpuTypeCreatablePlacements(void *handle, unsigned type, places_t *told) {
    (void)handle;
    told->size = type == 1155 ? 24 : 4;
    told->count = type == 1155 ? 0 : 1;
    told->ids[0] = 4;
    return OK;
}

/* Running: 7 has a guest driver and uses more than 4 GiB, 8 has none. */
int nvmlDeviceGetActiveVgpus(void *handle, unsigned *count, unsigned *into) {
    (void)handle;
    if (into == NULL) { *count = 2; return SMALL; }
    into[0] = 7;
    into[1] = 8;
    return OK;
}
int nvmlVgpuInstanceGetType(unsigned vgpu, unsigned *told) { *told = vgpu == 7 ? 1155 : 1150; return OK; }
int nvmlVgpuInstanceGetVmID(unsigned vgpu, char *into, unsigned length, unsigned *kind) {
    (void)length;
    *kind = vgpu == 7;
    return fill(into, 80, vgpu == 7 ? "00000000-0000-4000-8000-000000000007" : "31");
}
int nvmlVgpuInstanceGetMdevUUID(unsigned vgpu, char *into, unsigned length) {
    (void)vgpu;
    (void)into;
    (void)length;
    return NOT_SUPPORTED;
}
int nvmlVgpuInstanceGetPlacementId(unsigned vgpu, switch_t *told) { told->mode = vgpu == 7 ? 24 : 0; return OK; }
int nvmlVgpuInstanceGetGpuInstanceId(unsigned vgpu, unsigned *told) { (void)vgpu; *told = 0xFFFFFFFF; return OK; }
int nvmlVgpuInstanceGetVmDriverVersion(unsigned vgpu, char *into, unsigned length) {
    return vgpu == 7 ? fill(into, length, "570.86.15") : NOT_SUPPORTED;
}
typedef struct { uint8_t licensed; struct { uint32_t year; uint16_t month, day, hour, minute, second; uint8_t status; } end; unsigned state; } licence_t;
int nvmlVgpuInstanceGetLicenseInfo_v2(unsigned vgpu, licence_t *told) {
    *told = (licence_t){vgpu == 7, {2026, 4, 3, 9, 1, 6, 2}, vgpu == 7 ? 5 : 3};
    return OK;
}
int nvmlVgpuInstanceGetFbUsage(unsigned vgpu, unsigned long long *told) {
    *told = (vgpu == 7 ? 5000ULL : 128ULL) << 20; /* 64 bits, whatever the buffer is */
    return OK;
}

/* Usage. */
typedef struct { unsigned gpu, memory; } busy_t;
int nvmlDeviceGetUtilizationRates(void *handle, busy_t *told) { (void)handle; *told = (busy_t){41, 17}; return OK; }
int nvmlDeviceGetEncoderUtilization(void *handle, unsigned *told, unsigned *period) { (void)handle; *told = 5; *period = 1; return OK; }
int nvmlDeviceGetDecoderUtilization(void *handle, unsigned *told, unsigned *period) { (void)handle; (void)told; (void)period; return NOT_SUPPORTED; }
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_t;
int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_t *told) { (void)handle; told->used = 30000ULL << 20; return OK; }
int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *told) { (void)handle; (void)sensor; *told = 48; return OK; }
int nvmlDeviceGetPowerUsage(void *handle, unsigned *told) { (void)handle; *told = 161500; return OK; }
typedef union { double d; unsigned u; unsigned long long l; } value_t;
typedef struct { unsigned vgpu; unsigned long long at; value_t sm, memory, encoder, decoder; } sample_t;
int nvmlDeviceGetVgpuUtilization(void *handle, unsigned long long since, unsigned *kind, unsigned *count, sample_t *into) {
    (void)handle;
    (void)since;
    *kind = 1;
    if (into == NULL) { *count = 2; return SMALL; }
    into[0] = (sample_t){7, 200, {.u = 38}, {.u = 16}, {.u = 4}, {.u = 0}};
    into[1] = (sample_t){7, 100, {.u = 99}, {.u = 99}, {.u = 99}, {.u = 99}}; /* an older one */
    return OK;
}

/* MIG: one profile, 3g, with one instance on the second half. */
typedef struct { unsigned version, id, p2p, slices, instances, processors, copy, decoders, encoders, jpeg, ofa; unsigned long long memory; char name[96]; } profile_t;
int nvmlDeviceGetGpuInstanceProfileInfoV(void *handle, unsigned profile, profile_t *told) {
    (void)handle;
    if (profile != 2)
        return profile < 18 ? NOT_SUPPORTED : INVALID;
    told->id = 9;
    told->slices = 3;
    told->instances = 2;
    return fill(told->name, sizeof told->name, "MIG 3g.47gb");
}
int nvmlDeviceGetGpuInstanceRemainingCapacity(void *handle, unsigned profile, unsigned *told) { (void)handle; (void)profile; *told = 1; return OK; }
typedef struct { unsigned start, size; } place_t;
int nvmlDeviceGetGpuInstancePossiblePlacements_v2(void *handle, unsigned profile, place_t *into, unsigned *count) {
    (void)handle;
    (void)profile;
    *count = 2;
    if (into != NULL) {
        into[0] = (place_t){0, 4};
        into[1] = (place_t){4, 4};
    }
    return OK;
}
int nvmlDeviceGetGpuInstances(void *handle, unsigned profile, void **into, unsigned *count) {
    (void)handle;
    (void)profile;
    *count = 1;
    into[0] = (void *)(uintptr_t)2;
    return OK;
}
typedef struct { void *device; unsigned id, profile; place_t place; } instance_t;
int nvmlGpuInstanceGetInfo(void *handle, instance_t *told) {
    (void)handle;
    *told = (instance_t){NULL, 2, 9, {4, 4}};
    return OK;
}

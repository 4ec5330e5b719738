// Vectors, noise and color shared by the renderers.
//
// Coordinates are those of a camera: x to the right, y down, z forward, in meters.
#ifndef RENDER_H
#define RENDER_H

#include <math.h>
#include <stdint.h>

typedef struct {
    float x, y, z;
} vec3;

static inline vec3 add(vec3 a, vec3 b) { return (vec3){a.x + b.x, a.y + b.y, a.z + b.z}; }
static inline vec3 sub(vec3 a, vec3 b) { return (vec3){a.x - b.x, a.y - b.y, a.z - b.z}; }
static inline vec3 scale(vec3 a, float s) { return (vec3){a.x * s, a.y * s, a.z * s}; }
static inline float dot(vec3 a, vec3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static inline vec3 normalize(vec3 a) { return scale(a, 1.0f / sqrtf(dot(a, a) + 1e-20f)); }
static inline float clamp(float value, float low, float high) {
    return value < low ? low : value > high ? high : value;
}

// Hash of a lattice point, from 0 to 1.
static inline float lattice(int x, int y, int z) {
    uint32_t h = (uint32_t)x * 374761393u + (uint32_t)y * 668265263u + (uint32_t)z * 2147483647u;
    h = (h ^ (h >> 13)) * 1274126177u;
    return (float)((h ^ (h >> 16)) & 0xffff) / 65535.0f;
}

static inline float smooth(float t) { return t * t * (3.0f - 2.0f * t); }

// Value noise in three dimensions, from 0 to 1.
static inline float noise(vec3 p) {
    int x = (int)floorf(p.x), y = (int)floorf(p.y), z = (int)floorf(p.z);
    float fx = smooth(p.x - (float)x), fy = smooth(p.y - (float)y), fz = smooth(p.z - (float)z);
    float sum = 0.0f;
    for (int corner = 0; corner < 8; corner++) {
        int dx = corner & 1, dy = corner >> 1 & 1, dz = corner >> 2;
        float weight = (dx ? fx : 1 - fx) * (dy ? fy : 1 - fy) * (dz ? fz : 1 - fz);
        sum += weight * lattice(x + dx, y + dy, z + dz);
    }
    return sum;
}

// Gamma-encoded value (0 to 255) of a linear intensity.
static inline float encode(float linear) { return 255.0f * powf(clamp(linear, 0.0f, 1.0f), 1.0f / 2.2f); }

#endif

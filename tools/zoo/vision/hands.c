// Ray-caster of round cones (the hull of two spheres): hands, arms, sleeves and held objects.
//
// Four rays per pixel, one light with shadows, one fill light, ambient light, skin texture.
#include "render.h"

enum { MAX_CONES = 128, RAYS = 4 };
enum part { SKIN, FINGERTIP, FABRIC };

typedef struct {
    vec3 a, b;        // centers of the two spheres
    float ra, rb;     // their radii
    vec3 back;        // direction of the back of the hand
    vec3 color;       // linear
    float part;       // enum part
} cone;

typedef struct {
    float focal, cx, cy;   // in pixels
    vec3 light, fill;      // directions to the lights
    vec3 light_color, ambient;
    float fill_level, shininess, specular;
    float texture, texture_scale, texture_offset;
} setting;

typedef struct {
    int x0, y0, x1, y1;
} bounds;

typedef struct {
    float distance, along;  // along: position between the two spheres, 0 to 1
    int index;              // cone; -1 if none is hit
    vec3 normal;
} hit;

// Pixels that a cone may cover.
static bounds project(const cone *c, const setting *s) {
    float x0 = 1e9f, y0 = 1e9f, x1 = -1e9f, y1 = -1e9f;
    for (int end = 0; end < 2; end++) {
        vec3 p = end ? c->b : c->a;
        float r = end ? c->rb : c->ra, u = s->cx, v = s->cy, reach = 1e6f;
        if (p.z - r > 0.02f) {
            u += p.x / p.z * s->focal;
            v += p.y / p.z * s->focal;
            reach = r / (p.z - r) * s->focal * 1.35f + 2.0f;
        }
        x0 = fminf(x0, u - reach), x1 = fmaxf(x1, u + reach);
        y0 = fminf(y0, v - reach), y1 = fmaxf(y1, v + reach);
    }
    return (bounds){(int)clamp(x0, -1e6f, 1e6f), (int)clamp(y0, -1e6f, 1e6f), (int)clamp(x1, -1e6f, 1e6f),
                    (int)clamp(y1, -1e6f, 1e6f)};
}

// Intersects the ray from the origin in the direction `d` with a cone, if nearer than `h`.
static int intersect(const cone *c, vec3 d, hit *h) {
    vec3 axis = sub(c->b, c->a), from_a = scale(c->a, -1), from_b = scale(c->b, -1);
    float ra = c->ra, rb = c->rb, taper = ra - rb;
    float m0 = dot(axis, axis), m1 = dot(axis, from_a), m2 = dot(axis, d), m3 = dot(d, from_a);
    float m5 = dot(from_a, from_a), m6 = dot(from_b, d), m7 = dot(from_b, from_b);
    float d2 = m0 - taper * taper, k2 = d2 - m2 * m2;
    float k1 = d2 * m3 - m1 * m2 + m2 * taper * ra;
    float k0 = d2 * m5 - m1 * m1 + m1 * taper * ra * 2 - m0 * ra * ra, disc = k1 * k1 - k0 * k2;
    if (disc >= 0) {
        float t = (-sqrtf(disc) - k1) / k2, y = m1 - ra * taper + t * m2;
        if (y > 0 && y < d2 && t > 0) {
            if (t >= h->distance) return 0;
            h->distance = t, h->along = y / d2;
            h->normal = normalize(sub(scale(add(from_a, scale(d, t)), d2), scale(axis, y)));
            return 1;
        }
    }
    int found = 0;
    float disc_a = m3 * m3 - m5 + ra * ra, disc_b = m6 * m6 - m7 + rb * rb;
    if (disc_a > 0 && -m3 - sqrtf(disc_a) > 0 && -m3 - sqrtf(disc_a) < h->distance) {
        h->distance = -m3 - sqrtf(disc_a), h->along = 0, found = 1;
        h->normal = scale(add(from_a, scale(d, h->distance)), 1 / ra);
    }
    if (disc_b > 0 && -m6 - sqrtf(disc_b) > 0 && -m6 - sqrtf(disc_b) < h->distance) {
        h->distance = -m6 - sqrtf(disc_b), h->along = 1, found = 1;
        h->normal = scale(add(from_b, scale(d, h->distance)), 1 / rb);
    }
    return found;
}

// Part of the light that reaches a point (`*lit`) and of the ambient light (returned), judged from
// three spheres of every other cone.
static float occlusion(const cone *cones, int count, int self, vec3 p, vec3 normal, vec3 light, float *lit) {
    float open = 1.0f;
    for (int i = 0; i < count; i++) {
        if (i == self) continue;
        for (int k = 0; k < 3; k++) {
            float w = 0.5f * (float)k, r = cones[i].ra + (cones[i].rb - cones[i].ra) * w;
            vec3 to = sub(add(cones[i].a, scale(sub(cones[i].b, cones[i].a), w)), p);
            float t = dot(to, light), square = dot(to, to), gap = (sqrtf(square) - r) / (r * 1.2f);
            if (t > r * 0.5f && square - t * t < r * r * 0.85f) *lit = 0.35f;
            if (gap > 0 && gap < 1 && dot(to, normal) > 0) open *= 1 - 0.12f * (1 - gap);
        }
    }
    return open;
}

// Brightness of the texture at a point, and tint of palm, nails and creases.
static float texture(const cone *c, const setting *s, const hit *h, vec3 p, vec3 *color) {
    vec3 q = scale(add(p, (vec3){s->texture_offset, 0, 0}), s->texture_scale);
    float level = 1 + s->texture * 2 * (noise(q) * 0.6f + noise(scale(q, 3.1f)) * 0.4f - 0.5f);
    if (c->part == FABRIC) return level;
    float back = dot(h->normal, c->back);
    if (c->part == FINGERTIP && back > 0.72f && h->along > 0.45f) {
        *color = (vec3){color->x * 1.06f, color->y * 1.12f, color->z * 1.12f};
        return 1.05f;
    }
    if (back < -0.25f) {
        *color = (vec3){color->x * 1.08f, color->y * 1.03f, color->z * 1.02f};
        if (h->along < 0.06f || h->along > 0.96f) level *= 0.86f;
    } else if (back > 0.4f && (h->along < 0.08f || h->along > 0.95f)) {
        level *= 0.92f;
    }
    return level;
}

static void shade(const cone *cones, int count, const setting *s, const hit *h, vec3 d, float rgb[3]) {
    const cone *c = &cones[h->index];
    vec3 p = scale(d, h->distance), color = c->color;
    float level = texture(c, s, h, p, &color), lit = 1;
    float open = occlusion(cones, count, h->index, add(p, scale(h->normal, 0.0015f)), h->normal, s->light, &lit);
    float diffuse = fmaxf((dot(h->normal, s->light) + 0.25f) / 1.25f, 0) * lit;
    float fill = fmaxf(dot(h->normal, s->fill), 0) * s->fill_level;
    float mirror = dot(h->normal, normalize(sub(s->light, d)));
    float shine = mirror > 0 ? powf(mirror, s->shininess) * s->specular * lit : 0;
    float edge = 1 - fabsf(dot(h->normal, d)), dim = 1 - 0.35f * edge * edge * edge;
    const float *base = &color.x, *light = &s->light_color.x, *ambient = &s->ambient.x;
    for (int k = 0; k < 3; k++)
        rgb[k] = encode(base[k] * level * (ambient[k] * open + light[k] * diffuse + fill) * dim + shine);
}

// Renders one pixel over its background.
static void render_pixel(int x, int y, const cone *cones, int count, const setting *s, const int *near, int nears,
                         uint8_t *pixel) {
    float sum[3] = {0, 0, 0}, shaded[RAYS][3];
    int shaded_index[RAYS], known = 0;
    for (int ray = 0; ray < RAYS; ray++) {
        float u = (float)x + 0.25f + 0.5f * (float)(ray & 1), v = (float)y + 0.25f + 0.5f * (float)(ray >> 1);
        vec3 d = normalize((vec3){(u - s->cx) / s->focal, (v - s->cy) / s->focal, 1});
        hit h = {1e9f, 0, -1, {0, 0, 0}};
        for (int i = 0; i < nears; i++)
            if (intersect(&cones[near[i]], d, &h)) h.index = near[i];
        int k = 0;
        while (k < known && shaded_index[k] != h.index) k++;
        if (k == known) {  // rays of a pixel that hit the same cone share their shading
            shaded_index[known++] = h.index;
            if (h.index < 0)
                for (int c = 0; c < 3; c++) shaded[k][c] = pixel[c];
            else
                shade(cones, count, s, &h, d, shaded[k]);
        }
        for (int c = 0; c < 3; c++) sum[c] += shaded[k][c];
    }
    for (int c = 0; c < 3; c++) pixel[c] = (uint8_t)(sum[c] / RAYS + 0.5f);
}

// Renders `count` cones over the RGB image `image`, which holds the background.
void render_hands(int width, int height, const cone *cones, int count, const setting *s, uint8_t *image) {
    bounds covered[MAX_CONES];
    int row[MAX_CONES], near[MAX_CONES];
    if (count > MAX_CONES) count = MAX_CONES;
    for (int i = 0; i < count; i++) covered[i] = project(&cones[i], s);
    for (int y = 0; y < height; y++) {
        int rows = 0;
        for (int i = 0; i < count; i++)
            if (y >= covered[i].y0 && y <= covered[i].y1) row[rows++] = i;
        for (int x = 0; x < width; x++) {
            int nears = 0;
            for (int i = 0; i < rows; i++)
                if (x >= covered[row[i]].x0 && x <= covered[row[i]].x1) near[nears++] = row[i];
            if (nears) render_pixel(x, y, cones, count, s, near, nears, image + 3 * ((long)y * width + x));
        }
    }
}

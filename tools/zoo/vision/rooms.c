// Ray-caster of rooms: the inside of a box with objects of boxes, spheres and cylinders.
//
// Gives color, depth, and for each object its visible pixels. Four rays per pixel, one point light
// with shadows, ambient light, procedural textures. World coordinates are those of a camera that
// looks ahead: y down, in meters.
#include "render.h"

enum { ROOM, FLOOR, CEILING };  // the first primitives: walls, floor and ceiling of the room
enum kind { BOX, SPHERE, CYLINDER };
enum { RAYS = 4, NOTHING = -1 };
static const float OFFSETS[RAYS][2] = {{.375f, .125f}, {.875f, .375f}, {.125f, .625f}, {.625f, .875f}};

typedef struct {
    float kind;             // enum kind; cylinders are upright
    vec3 center, half;      // half.x is the radius of spheres and cylinders
    float yaw;
    vec3 color;             // linear
    float pattern, frequency, offset;
} primitive;

typedef struct {
    int first, count;       // primitives
    vec3 center;            // bounding sphere
    float radius;
} object;

typedef struct {
    float focal, cx, cy;    // in pixels
    float turn[9];          // world from camera, row by row
    vec3 position, light;
    float ambient, light_level;
} view;

typedef struct {
    int visible, covered;   // rays that hit the object first, and rays that hit it at all
    int x0, y0, x1, y1;     // pixels of the visible part; x1 and y1 are exclusive
} extent;

typedef struct {
    const primitive *primitives;
    const object *objects;
    int count;
} scene;

typedef struct {
    float distance;
    int primitive, object;
    vec3 normal, local;     // in the world, and the point in the axes of the primitive
} hit;

static vec3 turned(vec3 v, float c, float s) { return (vec3){c * v.x - s * v.z, v.y, s * v.x + c * v.z}; }

// Distances to the planes of a box, the nearer in `t0`, and their axes.
static void slabs(vec3 half, vec3 p, vec3 d, float *t0, float *t1, int *axis0, int *axis1) {
    const float *h = &half.x, *from = &p.x, *along = &d.x;
    *t0 = -1e9f, *t1 = 1e9f, *axis0 = *axis1 = 0;
    for (int i = 0; i < 3; i++) {
        float step = fabsf(along[i]) < 1e-9f ? 1e-9f : along[i];
        float a = (-h[i] - from[i]) / step, b = (h[i] - from[i]) / step;
        if (fminf(a, b) > *t0) *t0 = fminf(a, b), *axis0 = i;
        if (fmaxf(a, b) < *t1) *t1 = fmaxf(a, b), *axis1 = i;
    }
}

static vec3 face(int axis, vec3 d) {
    vec3 normal = {0, 0, 0};
    (&normal.x)[axis] = (&d.x)[axis] > 0 ? -1.0f : 1.0f;
    return normal;
}

// Distance along a ray to an upright cylinder, or -1.
static float hit_cylinder(float radius, float half, vec3 p, vec3 d, vec3 *normal) {
    float a = d.x * d.x + d.z * d.z, b = p.x * d.x + p.z * d.z;
    float disc = b * b - a * (p.x * p.x + p.z * p.z - radius * radius);
    if (disc <= 0) return -1;
    if (a > 1e-9f) {
        float t = (-b - sqrtf(disc)) / a;
        if (t > 1e-3f && fabsf(p.y + t * d.y) < half) {
            *normal = normalize((vec3){p.x + t * d.x, 0, p.z + t * d.z});
            return t;
        }
    }
    float t = ((d.y > 0 ? -half : half) - p.y) / d.y;
    vec3 q = add(p, scale(d, t));
    if (t <= 1e-3f || q.x * q.x + q.z * q.z >= radius * radius) return -1;
    *normal = (vec3){0, d.y > 0 ? -1.0f : 1.0f, 0};
    return t;
}

// Distance along a ray to the outside of a primitive, or -1.
static float hit_primitive(const primitive *shape, vec3 from, vec3 d, vec3 *normal, vec3 *local) {
    float c = cosf(shape->yaw), s = sinf(shape->yaw), t = -1;
    vec3 p = turned(sub(from, shape->center), c, s), r = turned(d, c, s), n = {0, 0, 0};
    if (shape->kind == BOX) {
        float t0, t1;
        int axis0, axis1;
        slabs(shape->half, p, r, &t0, &t1, &axis0, &axis1);
        if (t0 < t1 && t0 > 1e-3f) t = t0, n = face(axis0, r);
    } else if (shape->kind == SPHERE) {
        float b = dot(p, r), disc = b * b - dot(p, p) + shape->half.x * shape->half.x;
        if (disc > 0) t = -b - sqrtf(disc), n = normalize(add(p, scale(r, t)));
    } else {
        t = hit_cylinder(shape->half.x, shape->half.y, p, r, &n);
    }
    *local = add(p, scale(r, t));
    *normal = turned(n, c, -s);
    return t > 1e-3f ? t : -1;
}

static int may_hit(const object *o, vec3 from, vec3 d) {
    vec3 to = sub(o->center, from);
    float along = dot(to, d), square = dot(to, to), limit = o->radius * o->radius;
    return (along > 0 || square < limit) && square - along * along < limit;
}

// First hit of a ray. Sets a bit in `touched` for each object that it hits.
static hit cast(const scene *s, vec3 from, vec3 d, uint64_t *touched) {
    hit best = {1e9f, ROOM, NOTHING, {0, 0, 0}, {0, 0, 0}};
    float t0, t1;
    int axis0, axis1;
    vec3 center = s->primitives[ROOM].center;
    slabs(s->primitives[ROOM].half, sub(from, center), d, &t0, &t1, &axis0, &axis1);
    best.distance = t1, best.normal = face(axis1, d), best.local = sub(add(from, scale(d, t1)), center);
    if (axis1 == 1) best.primitive = d.y > 0 ? FLOOR : CEILING;
    for (int i = 0; i < s->count; i++) {
        const object *o = &s->objects[i];
        if (!may_hit(o, from, d)) continue;
        for (int k = o->first; k < o->first + o->count; k++) {
            vec3 normal, local;
            float t = hit_primitive(&s->primitives[k], from, d, &normal, &local);
            if (t <= 0) continue;
            *touched |= 1ull << i;
            if (t < best.distance) best = (hit){t, k, i, normal, local};
        }
    }
    return best;
}

static int is_shadowed(const scene *s, vec3 from, vec3 d, float distance) {
    for (int i = 0; i < s->count; i++) {
        const object *o = &s->objects[i];
        if (!may_hit(o, from, d)) continue;
        for (int k = o->first; k < o->first + o->count; k++) {
            vec3 normal, local;
            float t = hit_primitive(&s->primitives[k], from, d, &normal, &local);
            if (t > 0 && t < distance) return 1;
        }
    }
    return 0;
}

static float fraction(float x) { return x - floorf(x); }

// Brightness of a pattern: plain, noise, checkers, stripes or bricks.
static float pattern(const primitive *shape, vec3 local) {
    vec3 q = add(scale(local, shape->frequency), (vec3){shape->offset, 0, 0});
    switch ((int)shape->pattern) {
        case 1: return 0.6f + 0.8f * (noise(q) * 0.6f + noise(scale(q, 2.7f)) * 0.4f);
        case 2: return ((int)floorf(q.x) + (int)floorf(q.y) + (int)floorf(q.z)) & 1 ? 1.1f : 0.6f;
        case 3: return 0.75f + (sinf(q.y * 6 + 3 * noise(q)) > 0 ? 0.5f : 0);
        case 4: {
            float row = q.y * 2, column = q.x + q.z + ((int)floorf(row) & 1 ? 0.5f : 0);
            return fraction(column) < 0.06f || fraction(row) < 0.1f ? 0.5f : 0.9f + 0.3f * noise(scale(q, 3));
        }
        default: return 1;
    }
}

static void shade(const scene *s, const view *v, vec3 from, vec3 d, const hit *h, float rgb[3]) {
    vec3 p = add(from, scale(d, h->distance)), to_light = sub(v->light, p);
    float distance = sqrtf(dot(to_light, to_light)), level;
    to_light = scale(to_light, 1 / distance);
    float diffuse = fmaxf(dot(h->normal, to_light), 0);
    if (diffuse > 0 && is_shadowed(s, add(p, scale(h->normal, 0.004f)), to_light, distance)) diffuse *= 0.2f;
    level = v->ambient * (0.8f - 0.2f * h->normal.y) + v->light_level * diffuse * 6 / (3 + distance * distance);
    const primitive *shape = &s->primitives[h->primitive];
    const float *color = &shape->color.x;
    level *= pattern(shape, h->local);
    for (int k = 0; k < 3; k++) rgb[k] = encode(color[k] * level);
}

static void count_visible(extent *e, int x, int y) {
    if (!e->visible++) *e = (extent){1, e->covered, x, y, x + 1, y + 1};
    if (x < e->x0) e->x0 = x;
    if (x + 1 > e->x1) e->x1 = x + 1;
    if (y < e->y0) e->y0 = y;
    if (y + 1 > e->y1) e->y1 = y + 1;
}

// Renders one pixel. Rays that hit the same side of the same primitive share their shading.
static void render_pixel(const scene *s, const view *v, int x, int y, uint8_t *rgb, float *depth, extent *extents) {
    float sum[3] = {0, 0, 0}, shaded[RAYS][3];
    hit hits[RAYS];
    *depth = 1e9f;
    for (int ray = 0; ray < RAYS; ray++) {
        float a = ((float)x + OFFSETS[ray][0] - v->cx) / v->focal, b = ((float)y + OFFSETS[ray][1] - v->cy) / v->focal;
        const float *t = v->turn;
        vec3 d = {t[0] * a + t[1] * b + t[2], t[3] * a + t[4] * b + t[5], t[6] * a + t[7] * b + t[8]};
        uint64_t touched = 0;
        d = normalize(d);
        hits[ray] = cast(s, v->position, d, &touched);
        const hit *h = &hits[ray];
        *depth = fminf(*depth, h->distance / sqrtf(a * a + b * b + 1));
        if (h->object != NOTHING) count_visible(&extents[h->object], x, y);
        for (int i = 0; touched; i++, touched >>= 1) extents[i].covered += (int)(touched & 1);
        int k = 0;
        while (k < ray && (hits[k].primitive != h->primitive || dot(hits[k].normal, h->normal) < 0.9f)) k++;
        if (k == ray) shade(s, v, v->position, d, h, shaded[ray]);
        else
            for (int c = 0; c < 3; c++) shaded[ray][c] = shaded[k][c];
        for (int c = 0; c < 3; c++) sum[c] += shaded[ray][c];
    }
    for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)(sum[c] / RAYS + 0.5f);
}

// Renders an RGB image and a depth map (along the optical axis, in meters). There are at most 64
// objects; `extents` starts with zeros.
void render_room(int width, int height, const primitive *primitives, const object *objects, int count, const view *v,
                 uint8_t *image, float *depth, extent *extents) {
    scene s = {primitives, objects, count < 64 ? count : 64};
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            long i = (long)y * width + x;
            render_pixel(&s, v, x, y, image + 3 * i, depth + i, extents);
        }
}

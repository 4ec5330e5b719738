// QEMU plugin (API 1): counts the instructions between the functions mark_begin and mark_end, and
// prints a line for each region. With the first and the last address of the memory for the stack, it
// also prints the bytes of it that were written. Needs no headers of QEMU.
//
//     cc -O2 -shared -fPIC -o libinstructions.so instructions.c
//     qemu-system-arm ... -plugin ./libinstructions.so[,bottom=ADDRESS,top=ADDRESS]
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
typedef void (*translate_callback)(plugin_id, void *);
typedef void (*execute_callback)(unsigned, void *);
typedef void (*memory_callback)(unsigned, uint32_t, uint64_t, void *);
typedef void (*exit_callback)(plugin_id, void *);

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, translate_callback);
void qemu_plugin_register_vcpu_insn_exec_cb(void *, execute_callback, int, void *);
void qemu_plugin_register_vcpu_insn_exec_inline(void *, int, void *, uint64_t);
void qemu_plugin_register_vcpu_mem_cb(void *, memory_callback, int, int, void *);
void qemu_plugin_register_atexit_cb(plugin_id, exit_callback, void *);
size_t qemu_plugin_tb_n_insns(void *);
void *qemu_plugin_tb_get_insn(void *, size_t);
uint64_t qemu_plugin_insn_vaddr(void *);
const char *qemu_plugin_insn_symbol(void *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t count, start;
static int region;
// Memory for the stack, and its lowest address that was written.
static uint64_t bottom, top, lowest;
// First instruction of each mark: the lowest address of its symbol that was translated.
static uint64_t first[2] = {UINT64_MAX, UINT64_MAX};

static void on_begin(unsigned cpu, void *data) { start = count; }

static void on_end(unsigned cpu, void *data) {
    fprintf(stderr, "region %d: %" PRIu64 " instructions\n", region++, count - start);
}

static void on_write(unsigned cpu, uint32_t info, uint64_t address, void *data) {
    if (address >= bottom && address < lowest) lowest = address;
}

static void on_exit_of_guest(plugin_id id, void *data) {
    fprintf(stderr, "stack: %" PRIu64 " bytes\n", top - lowest);
}

static void translate(plugin_id id, void *block) {
    static const char *const names[2] = {"mark_begin", "mark_end"};
    static const execute_callback callbacks[2] = {on_begin, on_end};
    size_t length = qemu_plugin_tb_n_insns(block);
    for (size_t at = 0; at < length; at++) {
        void *instruction = qemu_plugin_tb_get_insn(block, at);
        const char *symbol = qemu_plugin_insn_symbol(instruction);
        uint64_t address = qemu_plugin_insn_vaddr(instruction);
        for (int mark = 0; mark < 2; mark++) {
            if (symbol && !strcmp(symbol, names[mark]) && address <= first[mark]) {
                first[mark] = address;
                qemu_plugin_register_vcpu_insn_exec_cb(instruction, callbacks[mark], 0, NULL);
            }
        }
        qemu_plugin_register_vcpu_insn_exec_inline(instruction, 0, &count, 1);
        if (top) qemu_plugin_register_vcpu_mem_cb(instruction, on_write, 0, 2, NULL); // 2: writes
    }
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
    for (int at = 0; at < argc; at++) {
        if (!strncmp(argv[at], "bottom=", 7)) bottom = strtoull(argv[at] + 7, NULL, 0);
        if (!strncmp(argv[at], "top=", 4)) lowest = top = strtoull(argv[at] + 4, NULL, 0);
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    if (top) qemu_plugin_register_atexit_cb(id, on_exit_of_guest, NULL);
    return 0;
}

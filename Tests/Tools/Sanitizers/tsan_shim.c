// GLib's locks and the slow path of Swift's Mutex wait in code that is not instrumented, so ThreadSanitizer would report
// accesses that they order as races. This library, which scripts/sanitize preloads, announces their acquires and
// releases.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <glib.h>
#include <stdint.h>

void __tsan_acquire(void *);
void __tsan_release(void *);

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }
#define REAL(name) ((__typeof__(&name))next(#name))

void g_mutex_lock(GMutex *mutex) {
    REAL(g_mutex_lock)(mutex);
    __tsan_acquire(mutex);
}

gboolean g_mutex_trylock(GMutex *mutex) {
    gboolean taken = REAL(g_mutex_trylock)(mutex);
    if (taken) __tsan_acquire(mutex);
    return taken;
}

void g_mutex_unlock(GMutex *mutex) {
    __tsan_release(mutex);
    REAL(g_mutex_unlock)(mutex);
}

void g_rec_mutex_lock(GRecMutex *mutex) {
    REAL(g_rec_mutex_lock)(mutex);
    __tsan_acquire(mutex);
}

void g_rec_mutex_unlock(GRecMutex *mutex) {
    __tsan_release(mutex);
    REAL(g_rec_mutex_unlock)(mutex);
}

void g_cond_wait(GCond *cond, GMutex *mutex) {
    __tsan_release(mutex);
    REAL(g_cond_wait)(cond, mutex);
    __tsan_acquire(mutex);
}

gboolean g_cond_wait_until(GCond *cond, GMutex *mutex, gint64 end) {
    __tsan_release(mutex);
    gboolean signalled = REAL(g_cond_wait_until)(cond, mutex, end);
    __tsan_acquire(mutex);
    return signalled;
}

void g_async_queue_push(GAsyncQueue *queue, gpointer item) {
    __tsan_release(queue);
    REAL(g_async_queue_push)(queue, item);
}

gpointer g_async_queue_pop(GAsyncQueue *queue) {
    gpointer item = REAL(g_async_queue_pop)(queue);
    __tsan_acquire(queue);
    return item;
}

// A source is dispatched after it was attached.
guint g_source_attach(GSource *source, GMainContext *context) {
    __tsan_release(context);
    return REAL(g_source_attach)(source, context);
}

gboolean g_main_context_iteration(GMainContext *context, gboolean may_block) {
    gboolean dispatched = REAL(g_main_context_iteration)(context, may_block);
    __tsan_acquire(context);
    return dispatched;
}

// Synchronization._MutexHandle._lockSlow(Swift.UInt32) and _unlockSlow(), of Swift 6.
#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
typedef __attribute__((swiftcall)) void LockSlow(uint32_t, __attribute__((swift_context)) void *);
typedef __attribute__((swiftcall)) void UnlockSlow(__attribute__((swift_context)) void *);
LockSlow lock_slow __asm__(LOCK_SLOW);
UnlockSlow unlock_slow __asm__(UNLOCK_SLOW);

__attribute__((swiftcall)) void lock_slow(uint32_t state, __attribute__((swift_context)) void *handle) {
    ((LockSlow *)next(LOCK_SLOW))(state, handle);
    __tsan_acquire(handle);
}

__attribute__((swiftcall)) void unlock_slow(__attribute__((swift_context)) void *handle) {
    __tsan_release(handle);
    ((UnlockSlow *)next(UNLOCK_SLOW))(handle);
}

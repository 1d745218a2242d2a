/* An application whose frames are its own memory. When a frame is released it reads a property of the element, and takes a
 * lock which another of its threads holds while it reads that property. Exits with 1 if something hangs, and traps where
 * the element traps. DECART_BASE_URL names the service, which need not answer. With the argument "unreadable" its memory
 * cannot be mapped: the program exits with 1 unless the element drops each frame, and warns. */
#include <gst/app/gstappsrc.h>
#include <gst/gst.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WIDTH = 320, HEIGHT = 176, SIZE = WIDTH * HEIGHT * 3 / 2, FRAMES = 100, LIMIT = 60 };

static GstElement *element;
static GMutex lock;
static gint released;
static gint ended;

static void read_statistics (void)
{
    GstStructure *statistics = NULL;
    g_object_get (element, "stats", &statistics, NULL);
    if (statistics != NULL)
        gst_structure_free (statistics);
}

static void release (gpointer memory)
{
    g_mutex_lock (&lock);
    g_mutex_unlock (&lock);
    read_statistics ();
    g_atomic_int_inc (&released);
    g_free (memory);
}

static gpointer read_under_lock (G_GNUC_UNUSED gpointer unused)
{
    while (!g_atomic_int_get (&ended)) {
        g_mutex_lock (&lock);
        read_statistics ();
        g_mutex_unlock (&lock);
        g_usleep (1000);
    }
    return NULL;
}

typedef GstAllocator Unreadable;
typedef GstAllocatorClass UnreadableClass;
G_DEFINE_TYPE (Unreadable, unreadable, GST_TYPE_ALLOCATOR)

static GstMemory *allocate (GstAllocator *allocator, gsize size, G_GNUC_UNUSED GstAllocationParams *parameters)
{
    GstMemory *memory = g_new0 (GstMemory, 1);
    gst_memory_init (memory, GST_MEMORY_FLAG_NO_SHARE, allocator, NULL, size, 0, 0, size);
    return memory;
}

static void free_memory (G_GNUC_UNUSED GstAllocator *allocator, GstMemory *memory)
{
    g_free (memory);
}

static gpointer map (G_GNUC_UNUSED GstMemory *memory, G_GNUC_UNUSED gsize size, G_GNUC_UNUSED GstMapFlags flags)
{
    return NULL;
}

static void unmap (G_GNUC_UNUSED GstMemory *memory)
{
}

static void unreadable_class_init (UnreadableClass *class)
{
    class->alloc = allocate;
    class->free = free_memory;
}

static void unreadable_init (Unreadable *allocator)
{
    allocator->mem_type = "unreadable";
    allocator->mem_map = map;
    allocator->mem_unmap = unmap;
}

static guint64 statistic (const char *name)
{
    GstStructure *statistics = NULL;
    guint64 value = 0;
    g_object_get (element, "stats", &statistics, NULL);
    gst_structure_get_uint64 (statistics, name, &value);
    gst_structure_free (statistics);
    return value;
}

static int push_unreadable (GstElement *pipeline, GstElement *source)
{
    GstAllocator *allocator = g_object_new (unreadable_get_type (), NULL);
    GstBus *bus = gst_element_get_bus (pipeline);
    gst_element_set_state (pipeline, GST_STATE_PLAYING);
    for (int frame = 0; frame < FRAMES; frame++) {
        GstBuffer *buffer = gst_buffer_new_allocate (allocator, SIZE, NULL);
        gst_app_src_push_buffer (GST_APP_SRC (source), buffer);
    }
    while (statistic ("frames-in") < FRAMES)
        g_usleep (10000);
    GstMessage *warning = gst_bus_timed_pop_filtered (bus, LIMIT * GST_SECOND, GST_MESSAGE_WARNING | GST_MESSAGE_ERROR);
    gboolean is_own = GST_MESSAGE_SRC (warning) == GST_OBJECT (element) && GST_MESSAGE_TYPE (warning) == GST_MESSAGE_WARNING;
    guint64 dropped = statistic ("frames-dropped"), sent = statistic ("frames-sent");
    gst_element_set_state (pipeline, GST_STATE_NULL);
    printf ("%d unreadable frames: %d dropped, %d sent, own warning %d\n", FRAMES, (int) dropped, (int) sent, is_own);
    return is_own && dropped == FRAMES && sent == 0 ? 0 : 1;
}

int main (int count, char **arguments)
{
    gst_init (&count, &arguments);
    alarm (LIMIT);
    GstElement *pipeline = gst_parse_launch (
        "appsrc name=s is-live=true format=time do-timestamp=true "
        "caps=video/x-raw,format=I420,width=320,height=176,framerate=25/1 ! "
        "decarttransform name=d fallback=passthrough model=lucy-2 width=320 height=176 framerate=25 ! fakesink sync=true", NULL);
    if (pipeline == NULL)
        return 2;
    element = gst_bin_get_by_name (GST_BIN (pipeline), "d");
    GstElement *source = gst_bin_get_by_name (GST_BIN (pipeline), "s");
    if (count > 1)
        return push_unreadable (pipeline, source);
    GThread *reader = g_thread_new ("reader", read_under_lock, NULL);
    if (gst_element_set_state (pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
        return 3;
    for (int frame = 0; frame < FRAMES; frame++) {
        gpointer memory = g_malloc0 (SIZE);
        GstBuffer *buffer = gst_buffer_new ();
        gst_buffer_append_memory (buffer, gst_memory_new_wrapped (0, memory, SIZE, 0, SIZE, memory, release));
        gst_app_src_push_buffer (GST_APP_SRC (source), buffer);
        g_usleep (20000);
    }
    gst_element_set_state (pipeline, GST_STATE_NULL);
    g_atomic_int_set (&ended, 1);
    g_thread_join (reader);
    gst_object_unref (source);
    gst_object_unref (element);
    gst_object_unref (pipeline);
    printf ("%d of %d frames released\n", released, FRAMES);
    return released == FRAMES ? 0 : 1;
}

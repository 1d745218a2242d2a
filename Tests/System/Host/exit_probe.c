/* An application that returns from main while a session plays. OpenSSL's own `atexit` handler frees what other threads use:
 * with the argument "before" the application has used OpenSSL before the element, so that this handler is there, and the
 * element's network threads must stand still when it runs; with "after" there must be no handler. Exits with 1 if not, or by
 * a signal after a minute.
 * DECART_BASE_URL names the service. */
#include <dirent.h>
#include <gst/gst.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LIMIT = 60 };

/* The call in which `pause` waits. */
#ifdef SYS_pause
static const long HALTED = SYS_pause;
#else
static const long HALTED = SYS_ppoll;
#endif

static gchar *contents (const char *task, const char *file)
{
    gchar *path = g_build_filename ("/proc/self/task", task, file, NULL), *text = NULL;
    g_file_get_contents (path, &text, NULL, NULL);
    g_free (path);
    return text != NULL ? text : g_strdup ("");
}

/* The number of network threads that do something; -1: there are none. */
static int running_threads (void)
{
    int halted = 0, running = 0;
    DIR *tasks = opendir ("/proc/self/task");
    for (struct dirent *task; (task = readdir (tasks)) != NULL;) {
        gchar *name = contents (task->d_name, "comm"), *call = contents (task->d_name, "syscall"), *end = call;
        if (!g_str_has_prefix (name, "decart-net"))
            ;
        else if (strtol (call, &end, 10) == HALTED && end != call)
            halted++;
        else
            running++;
        g_free (name);
        g_free (call);
    }
    closedir (tasks);
    return halted + running == 0 ? -1 : running;
}

static void expect_halted_threads (void)
{
    int running;
    /* A thread may be on its way into the call. */
    while ((running = running_threads ()) > 0)
        g_usleep (1000);
    if (running < 0)
        _exit (1);
}

static void expect_no_handler (void)
{
    puts ("OpenSSL frees what it has");
    fflush (stdout);
    _exit (1);
}

int main (int count, char **arguments)
{
    gst_init (&count, &arguments);
    alarm (LIMIT);
    gboolean is_before = count == 2 && strcmp (arguments[1], "before") == 0;
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (is_before && !(EVP_Q_digest (NULL, "SHA256", NULL, "", 0, digest, NULL) && OPENSSL_atexit (expect_halted_threads)))
        return 2;
    GstElement *pipeline = gst_parse_launch ("videotestsrc is-live=true ! decarttransform name=d ! fakesink", NULL);
    if (pipeline == NULL || gst_element_set_state (pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
        return 3;
    GstElement *element = gst_bin_get_by_name (GST_BIN (pipeline), "d");
    guint64 received = 0;
    while (received < 10) {
        GstStructure *statistics = NULL;
        g_usleep (10000);
        g_object_get (element, "stats", &statistics, NULL);
        gst_structure_get_uint64 (statistics, "frames-received", &received);
        gst_structure_free (statistics);
    }
    if (!is_before && !OPENSSL_atexit (expect_no_handler))
        return 2;
    return 0;
}

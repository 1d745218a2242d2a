// Preloaded into a process: pthread_create fails as at the process's limit of threads, once limit_threads has set one, or each
// second time if SECOND_THREAD_FAILS is set. RLIMIT_NPROC counts all processes of a user, and does not hold for root.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct start { void *(*function) (void *); void *argument; };

// Threads that may still start; each gives its place back when it ends.
static atomic_int left = 1000000;
static atomic_uint calls;

void
limit_threads (int number)
{
  atomic_store (&left, number);
}

static void
give_back (void *unused)
{
  (void) unused;
  atomic_fetch_add (&left, 1);
}

static void *
run (void *argument)
{
  struct start start = *(struct start *) argument;
  void *result;
  free (argument);
  pthread_cleanup_push (give_back, NULL);
  result = start.function (start.argument);
  pthread_cleanup_pop (1);
  return result;
}

int
pthread_create (pthread_t *thread, const pthread_attr_t *attributes, void *(*function) (void *), void *argument)
{
  int (*create) (pthread_t *, const pthread_attr_t *, void *(*) (void *), void *) = dlsym (RTLD_NEXT, "pthread_create");
  struct start *start = malloc (sizeof *start);
  int error = EAGAIN;
  int is_failure = getenv ("SECOND_THREAD_FAILS") && atomic_fetch_add (&calls, 1) % 2;
  if (start && atomic_fetch_sub (&left, 1) > 0 && !is_failure) {
    *start = (struct start) { function, argument };
    error = create (thread, attributes, run, start);
    if (!error)
      return 0;
  }
  if (start)
    atomic_fetch_add (&left, 1);
  free (start);
  return error;
}

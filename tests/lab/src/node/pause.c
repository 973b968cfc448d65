/* The first process of a pod's sandbox, and of the namespaces of a real node: it waits, and buries orphans. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) { (void)signal; _exit(0); }
static void bury(int signal) { (void)signal; while (waitpid(-1, NULL, WNOHANG) > 0) {} }

int main(void) {
    signal(SIGINT, end);
    signal(SIGTERM, end);
    signal(SIGCHLD, bury);
    for (;;) pause();
}

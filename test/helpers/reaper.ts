import { spawn } from "node:child_process";
import { once } from "node:events";

/**
 * Kills `pid` with SIGKILL when this process is gone, however it went: a small shell holds the read end of a pipe
 * whose write end only we have. `directory`, when given, is removed as well.
 * Returns the release: after it has resolved nothing will be killed.
 */
export function killWhenWeAreGone(pid: number, directory = ""): () => Promise<void> {
  const script = 'trap "" INT TERM HUP; read -r _; kill -9 "$1"; if [ -n "$2" ]; then rm -rf -- "$2"; fi';
  const shell = spawn("/bin/sh", ["-c", script, "reaper", String(pid), directory], {
    stdio: ["pipe", "ignore", "ignore"],
    env: {},
    detached: true,
  });
  // Our end of the pipe may break when the shell is killed by the release; that is no event for a test.
  shell.stdin.on("error", () => {});
  const gone = once(shell, "close");
  return async () => {
    shell.kill("SIGKILL");
    await gone;
  };
}

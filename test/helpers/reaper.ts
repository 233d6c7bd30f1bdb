import { spawn } from "node:child_process";
import { once } from "node:events";

/**
 * Kills `pid` with SIGKILL when this process ends in any way: a small shell holds the read end of a pipe, and only this
 * process has the write end. Also removes `directory` if given.
 * Returns a function that releases the process: after it resolves, `pid` is no longer killed.
 */
export function killWhenWeAreGone(pid: number, directory = ""): () => Promise<void> {
  const script = 'trap "" INT TERM HUP; read -r _; kill -9 "$1"; if [ -n "$2" ]; then rm -rf -- "$2"; fi';
  const shell = spawn("/bin/sh", ["-c", script, "reaper", String(pid), directory], {
    stdio: ["pipe", "ignore", "ignore"],
    env: {},
    detached: true,
  });
  // The pipe may break when the release kills the shell; tests can ignore that.
  shell.stdin.on("error", () => {});
  const gone = once(shell, "close");
  return async () => {
    shell.kill("SIGKILL");
    await gone;
  };
}

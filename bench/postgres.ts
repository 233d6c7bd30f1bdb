/** A private Postgres for the benchmark, if its programs are installed. */
import { execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { globSync } from "tinyglobby";
import { freePort, guarded, kept } from "./rig.ts";

/** User of the server, which refuses to run as root; Debian's package creates this user. */
const SERVER_USER = "postgres";

/** Starts a Postgres that ends with this process; resolves to its URL, or to undefined if Postgres is not installed. */
export async function startPostgres(): Promise<string | undefined> {
  const [programs] = globSync("/usr/lib/postgresql/*/bin/", { onlyDirectories: true, absolute: true });
  if (programs === undefined || !existsSync(join(programs, "postgres"))) return undefined;
  const user = process.getuid?.() === 0 ? idsOf(SERVER_USER) : undefined;
  const directory = mkdtempSync(join(tmpdir(), "bench-postgres-"));
  process.once("exit", () => rmSync(directory, { recursive: true, force: true }));
  if (user) chownSync(directory, user.uid, user.gid);
  const data = join(directory, "data");
  const initialise = ["--auth=trust", "--username=bench", "--no-instructions", "--pgdata", data];
  execFileSync(join(programs, "initdb"), initialise, { ...user, cwd: directory, stdio: "ignore" });
  const port = await freePort();
  const settings = ["listen_addresses=127.0.0.1", `port=${port}`, `unix_socket_directories=${directory}`];
  const args = ["-D", data, ...settings.flatMap((setting) => ["-c", setting])];
  const server = kept(spawn(join(programs, "postgres"), args, { ...user, cwd: directory, stdio: "ignore" }));
  guarded(server, directory);
  const ready = ["--host", "127.0.0.1", "--port", `${port}`, "--quiet"];
  for (let tries = 0; ; tries++) {
    try {
      execFileSync(join(programs, "pg_isready"), ready);
      break;
    } catch (error) {
      if (tries === 100 || server.exitCode !== null) throw error;
      await sleep(100);
    }
  }
  return `postgresql://bench@127.0.0.1:${port}/postgres`;
}

function idsOf(user: string): { uid: number; gid: number } {
  const id = (of: string) => Number(execFileSync("id", [of, user], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}

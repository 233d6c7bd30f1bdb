/** The host that hostile commands attack, and the drivers that carry them out in the real sandbox. */
import { execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { z } from "zod";
import { bundled } from "../../helpers/bundle.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { commandLinesWith } from "../../helpers/command-lines.ts";

const CANARY = "CANARY";
/** A number in the command line of every process that tries to stay alive. */
const MARK = "54321";
const NOBODY = 65_534;
/** Whether the worker may be root here. */
export const isRoot = process.getuid?.() === 0;
/** The sentence about bash, what each command printed, and the most memory of the driver, MiB. */
const Report = z.object({ sentence: z.string(), said: z.record(z.string(), z.string()), rss: z.number() });

let base: string;
let port: number;

/** The directories, secrets and servers of the host that commands are after; gone with the file. */
export async function setTraps(): Promise<void> {
  base = mkdtempSync(join(tmpdir(), "hostile-"));
  chmodSync(base, 0o755);
  closeAtEnd(() => rmSync(base, { recursive: true, force: true }));
  const [outside, opened] = [join(base, "outside"), join(base, "opened")];
  for (const path of [outside, ...[".", "sub", ".git", ".ssh"].map((name) => join(opened, name))]) {
    mkdirSync(path, { recursive: true });
  }
  const secrets = [".env", "sub/.env.local", ".git/config", ".ssh/id_rsa", "server.pem"].map((name) =>
    join(opened, name),
  );
  for (const path of [join(outside, "secret.txt"), ...secrets]) writeFileSync(path, `${CANARY}-OUTSIDE\n`);
  writeFileSync(join(opened, "plain.txt"), "plain\n");
  symlinkSync(".env", join(opened, "link-to-env"));
  execFileSync("/usr/bin/mkfifo", [join(opened, "fifo")]);
  const answer = createServer((socket) => void socket.on("error", () => {}).end(`${CANARY}-NETWORK\n`));
  const local = createServer((socket) => void socket.on("error", () => {}).end(`${CANARY}-SOCKET\n`));
  await new Promise<void>((resolve) => void answer.listen(0, "127.0.0.1", resolve));
  await new Promise<void>((resolve) => void local.listen(join(opened, "app.sock"), resolve));
  // Nothing but the sandbox keeps an ordinary user from changing them.
  for (const name of readdirSync(opened)) if (name !== "link-to-env") chmodSync(join(opened, name), 0o777);
  chmodSync(opened, 0o777);
  closeAtEnd(() => void answer.close());
  closeAtEnd(() => void local.close());
  const address = answer.address();
  port = typeof address === "object" && address !== null ? address.port : 0;
}

/** A driver that has ended. */
type Ended = z.infer<typeof Report>;

/** Who drives the commands. */
interface Driver {
  name: string;
  kind: "hostile" | "forking";
  /** What starts it. */
  launcher: readonly string[];
  /** To whom its workspaces belong, where that is not us. */
  owner?: number;
  /** The hosts that commands may reach. */
  egress?: string;
}

/** Runs a driver with canaries in its environment, and answers what the commands said. */
export async function drive({ name, kind, launcher, owner, egress = "" }: Driver): Promise<Ended> {
  const root = join(base, `workspaces-${name}`);
  mkdirSync(root, { mode: 0o700 });
  if (owner !== undefined) chownSync(root, owner, owner);
  const driver = await bundled(join(import.meta.dirname, "fixtures/hostile-driver.ts"));
  const places = [root, join(base, "opened"), join(base, "outside"), `${port}`, egress];
  const [file = "", ...args] = [...launcher, process.execPath, driver, kind, ...places];
  const child = spawn(file, args, {
    env: { PATH: "/usr/bin:/bin", HOME: "/tmp", TMPDIR: tmpdir(), ANTHROPIC_API_KEY: `${CANARY}-KEY` },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.on("data", (bytes: Buffer) => {
    text += bytes.toString();
  });
  await new Promise((resolve) => child.once("close", resolve));
  return Report.parse(JSON.parse(text));
}

/** The names and contents that no command may have changed. */
export const untouched = () =>
  JSON.stringify([
    readdirSync(join(base, "opened")).sort(),
    readdirSync(join(base, "outside")),
    readFileSync(join(base, "outside/secret.txt"), "utf8"),
    readFileSync(join(base, "opened/plain.txt"), "utf8"),
    readFileSync("/proc/sys/kernel/hostname", "utf8"),
    readFileSync("/proc/sys/kernel/core_pattern", "utf8"),
  ]);

/** All commands were carried out, none got out, none is left, and the driver has kept little. */
export function expectNoEscape({ said, rss }: Ended, commands: Readonly<Record<string, string>>): void {
  const escaped = Object.entries(said).filter(([, output]) => /ESCAPED|CANARY|cwd=.*outside/.test(output));
  expect(escaped).toEqual([]);
  expect(Object.keys(said)).toEqual(Object.keys(commands));
  expect(commandLinesWith(MARK)).toEqual([]);
  expect(rss).toBeLessThan(512);
}

const DROP = ["/usr/bin/setpriv", "--reuid", `${NOBODY}`, "--regid", `${NOBODY}`, "--clear-groups"];
const ordinary = isRoot ? { launcher: DROP, owner: NOBODY } : { launcher: [] };

/** What three drivers saw, side by side since they wait for most of their time: root, an ordinary user, one with a proxy. */
export async function driveAll(kind: Driver["kind"]) {
  const egress = `allowed.invalid,127.0.0.1:${port}`;
  const reports = {
    root: isRoot ? drive({ name: "root", kind, launcher: [] }) : Promise.reject(new Error("not root")),
    user: drive({ name: "user", kind, ...ordinary }),
    network: drive({ name: "network", kind, ...ordinary, egress }),
  };
  await Promise.allSettled(Object.values(reports));
  return reports;
}

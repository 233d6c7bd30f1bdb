/** Hostile commands in the real sandbox: as root, as an ordinary user, and where the system forbids namespaces. */
import { execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
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
import { beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { bundled } from "../../helpers/bundle.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { HOSTILE } from "./hostile-commands.ts";

const CANARY = "CANARY";
const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;
const Report = z.object({ sentence: z.string(), said: z.record(z.string(), z.string()), rss: z.number() });

let base: string;
let port: number;
beforeAll(async () => {
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
});

/** Runs the driver behind `launcher` with canaries in its environment, and answers what the commands said. */
async function drive(
  launcher: readonly string[],
  name: string,
  owner?: number,
  egress = "",
): Promise<z.infer<typeof Report>> {
  const root = join(base, `workspaces-${name}`);
  mkdirSync(root, { mode: 0o700 });
  if (owner !== undefined) chownSync(root, owner, owner);
  const driver = await bundled(join(import.meta.dirname, "fixtures/hostile-driver.ts"));
  const node = [process.execPath, driver];
  const [file = "", ...args] = [
    ...launcher,
    ...node,
    root,
    join(base, "opened"),
    join(base, "outside"),
    `${port}`,
    egress,
  ];
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
const untouched = () =>
  JSON.stringify([
    readdirSync(join(base, "opened")).sort(),
    readdirSync(join(base, "outside")),
    readFileSync(join(base, "outside/secret.txt"), "utf8"),
    readFileSync(join(base, "opened/plain.txt"), "utf8"),
    readFileSync("/proc/sys/kernel/hostname", "utf8"),
    readFileSync("/proc/sys/kernel/core_pattern", "utf8"),
  ]);

/** Processes of the machine that one of the commands started. */
function survivors(): string[] {
  return readdirSync("/proc").flatMap((pid) => {
    const file = `/proc/${pid}/cmdline`;
    if (!/^\d+$/.test(pid) || !existsSync(file)) return [];
    try {
      const line = readFileSync(file, "utf8").replaceAll("\0", " ");
      return line.includes("54321") ? [line] : [];
    } catch {
      return [];
    }
  });
}

function expectNoEscape({ said, rss }: z.infer<typeof Report>): void {
  const escaped = Object.entries(said).filter(([, output]) => /ESCAPED|CANARY|cwd=.*outside/.test(output));
  expect(escaped).toEqual([]);
  expect(Object.keys(said)).toEqual(Object.keys(HOSTILE));
  expect(survivors()).toEqual([]);
  expect(rss).toBeLessThan(512);
}

const DROP = ["/usr/bin/setpriv", "--reuid", `${NOBODY}`, "--regid", `${NOBODY}`, "--clear-groups"];
const [asUser, user] = isRoot ? [DROP, NOBODY] : [[], undefined];

describe("the sandbox of bash", () => {
  let before: string;
  let reports: Record<"root" | "user" | "network", Promise<z.infer<typeof Report>>>;
  /** Side by side: they wait for most of their time. */
  beforeAll(async () => {
    before = untouched();
    reports = {
      root: isRoot ? drive([], "root") : Promise.reject(new Error("not root")),
      user: drive(asUser, "user", user),
      network: drive(asUser, "network", user, `allowed.invalid,127.0.0.1:${port}`),
    };
    await Promise.allSettled(Object.values(reports));
  }, 180_000);

  it("is attacked by more than 80 commands", () => {
    expect(Object.keys(HOSTILE).length).toBeGreaterThanOrEqual(80);
  });

  it.runIf(isRoot)("lets nothing out behind root, whose rights it gives up first", async () => {
    const report = await reports.root;
    expect(report.sentence).toBe("bash runs in bubblewrap, without network, as the user nobody.");
    expectNoEscape(report);
    expect(untouched()).toBe(before);
  });

  it("lets nothing out behind an ordinary user", async () => {
    const report = await reports.user;
    expect(report.sentence).toBe("bash runs in bubblewrap, without network.");
    expectNoEscape(report);
    expect(untouched()).toBe(before);
  });

  it("lets nothing out by the proxy that it has", async () => {
    const report = await reports.network;
    expect(report.sentence).toContain("with a proxy to allowed.invalid,");
    expectNoEscape(report);
    expect(untouched()).toBe(before);
  });

  it("is not offered where the system forbids namespaces, and says why", async () => {
    const forbid = ["/usr/bin/bwrap", "--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--"];
    const { sentence, said } = await drive(forbid, "forbidden");
    expect(sentence).toMatch(
      /^bash is not offered: no sandbox runs here \(bubblewrap: .+; runsc: it is not installed\)\. Install bubblewrap/,
    );
    expect(said).toEqual({});
  }, 60_000);
});

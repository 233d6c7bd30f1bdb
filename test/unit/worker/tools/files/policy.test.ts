import { link, mkdir, readFile, rename, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it, test } from "vitest";
import { isExecuted, isSecret } from "../../../../../src/worker/tools/files/policy.ts";
import { openScene, type Scene, SECRET } from "../scene.ts";

const SECRETS = [
  ".env",
  ".env.local",
  "app/.env.production",
  ".ENV",
  ".npmrc",
  "pkg/.npmrc",
  ".netrc",
  ".git-credentials",
  ".git/config",
  ".GIT/Config",
  "sub/.git/modules/m/config",
  ".git/config.worktree",
  ".ssh/known_hosts",
  ".aws/credentials",
  ".kube/config",
  ".docker/config.json",
  "id_rsa",
  "keys/id_ed25519",
  "server.pem",
  "tls/server.KEY",
  "store.p12",
  ".pgpass",
  "credentials.json",
  "service-account-prod.json",
  "secrets.yaml",
  ".subagent-queue/redis/redis.sock",
  "subagent-queue-aB3xY9/redis.sock",
];
const EXECUTED = [
  ".git/hooks/pre-commit",
  ".git/config",
  ".git",
  ".GIT/hooks/post-checkout",
  "sub/.git/info/attributes",
  ".gitmodules",
  ".gitattributes",
  ".githooks/pre-push",
  ".husky/pre-commit",
  ".vscode/tasks.json",
  ".idea/workspace.xml",
  ".devcontainer/devcontainer.json",
  ".claude/settings.json",
  ".cursor/rules",
  ".mcp.json",
  ".github/workflows/ci.yml",
  "sub/.github/actions/a/action.yml",
  ".gitlab-ci.yml",
  ".pre-commit-config.yaml",
  "Jenkinsfile",
  ".bashrc",
  ".envrc",
];
/** Names of every other kind; the rows above go through all tools, these only through the policy. */
const OTHER_SECRETS = [
  ...[
    ".gnupg/x",
    ".azure/x",
    ".password-store/x",
    ".yarnrc.yml",
    "_netrc",
    ".pypirc",
    ".my.cnf",
    ".htpasswd",
  ],
  ...[".dockercfg", ".boto", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "a.key", "a.pfx", "a.jks", "a.keystore"],
  ...["a.kdbx", "a.ppk", "service_account.json", "secret.json", "secrets.yml", "secrets.toml"],
];
const OTHER_EXECUTED = [
  ...[".codex/x", ".gemini/x", ".windsurf/x", ".circleci/config.yml", ".buildkite/pipeline.yml", ".profile"],
  ...[
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".inputrc",
  ],
  ...[".vimrc", ".exrc", ".travis.yml", ".drone.yaml", "azure-pipelines.yml", "bitbucket-pipelines.yml"],
  ...[".gitea/workflows/ci.yml", ".forgejo/workflows/ci.yml", ".Claude/settings.json"],
];
const ORDINARY = [
  "src/env.ts",
  ".env.example",
  ".env.local.sample",
  "environment",
  "src/config",
  "git/config",
  "id_rsa.pub",
  "keyboard.ts",
  "README.md",
  ".gitignore",
  ".github/CODEOWNERS",
  "docs/workflows/ci.yml",
  "npmrc",
  "src/secrets.ts",
  "monkey",
];

let scene: Scene;
beforeAll(async () => {
  scene = await openScene();
});

/** Puts a file with the secret below a host directory. */
async function plant(base: string, path: string): Promise<string> {
  const absolute = join(base, path);
  await mkdir(join(absolute, ".."), { recursive: true });
  await writeFile(absolute, `${SECRET}\n`);
  return absolute;
}

test.each(OTHER_SECRETS)("%s may hold secrets", (path) => expect(isSecret(path.split("/"))).toBe(true));
test.each(OTHER_EXECUTED)("%s is obeyed", (path) => expect(isExecuted(path.split("/"))).toBe(true));

describe("files that hold secrets", () => {
  it.each(SECRETS)("%s is never read, searched or edited, in the workspace or in a root", async (path) => {
    expect(isSecret(path.split("/"))).toBe(true);
    for (const base of [scene.home, scene.readOnly, scene.writable]) {
      const absolute = await plant(base, path);
      const name = base === scene.home ? path : absolute;
      const calls = [
        scene.call("read_file", { file_path: name }),
        scene.call("grep", { pattern: "SECRET", path: name }),
        scene.call("grep", { pattern: "SECRET", path: base === scene.home ? "." : base }),
        scene.call("edit_file", { file_path: name, old_string: SECRET, new_string: "x" }),
        scene.call("write_file", { file_path: name, content: "x" }),
      ];
      for (const { content } of await Promise.all(calls)) expect(content).not.toContain(SECRET);
      expect(await readFile(absolute, "utf8")).toBe(`${SECRET}\n`);
      await rm(join(base, path.split("/")[0] ?? path), { recursive: true });
    }
  });

  it("are refused by every link that leads to them", async () => {
    await plant(scene.writable, ".env");
    await plant(scene.writable, ".aws/x");
    await symlink(join(scene.writable, ".env"), join(scene.home, "plain.txt"));
    await symlink(join(scene.writable, ".aws"), join(scene.home, "plain-directory"));
    for (const path of ["plain.txt", "plain-directory/x"]) {
      expect((await scene.call("read_file", { file_path: path })).content).toMatch(/may hold secrets/);
    }
    expect((await scene.call("glob", { pattern: "**", path: "plain-directory" })).isError).toBe(true);
  });
});

describe("files that programs run or obey", () => {
  it.each(EXECUTED)("%s is never written, in the workspace or in a root", async (path) => {
    expect(isExecuted(path.split("/"))).toBe(true);
    for (const name of [path, join(scene.writable, path)]) {
      const { content, isError } = await scene.call("write_file", { file_path: name, content: "x" });
      expect(isError).toBe(true);
      expect(content).toMatch(/is never written/);
    }
    await expect(readFile(join(scene.writable, path))).rejects.toThrow(/ENOENT|EISDIR/);
  });

  it("are refused by every link that leads to them, and no directory is made on the way", async () => {
    await mkdir(join(scene.writable, ".git"));
    await symlink(join(scene.writable, ".git"), join(scene.home, "innocent"));
    const { content } = await scene.call("write_file", {
      file_path: "innocent/hooks/pre-commit",
      content: "x",
    });
    expect(content).toMatch(/is never written/);
    await expect(readFile(join(scene.writable, ".git/hooks"))).rejects.toThrow(/ENOENT/);
  });
});

it.each(ORDINARY)("%s is an ordinary file", async (path) => {
  expect([isSecret(path.split("/")), isExecuted(path.split("/"))]).toEqual([false, false]);
  expect(await scene.call("write_file", { file_path: path, content: "text" })).toMatchObject({
    isError: false,
  });
  expect(await scene.call("read_file", { file_path: path })).toMatchObject({ content: "text" });
});

describe("a hard link whose name is swapped while it is opened", () => {
  it("gives nothing of the file outside in 500 tries", async () => {
    const outside = join(scene.outside, "secret.txt");
    const name = join(scene.home, "raced");
    let over = false;
    const swapping = (async () => {
      while (!over) {
        await link(outside, name).catch(() => {});
        await unlink(name).catch(() => {});
        await writeFile(`${name}.own`, "own");
        await rename(`${name}.own`, name).catch(() => {});
        await unlink(name).catch(() => {});
      }
    })();
    const seen = new Set<string>();
    for (let n = 0; n < 500; n++) seen.add((await scene.call("read_file", { file_path: "raced" })).content);
    over = true;
    await swapping;
    expect([...seen].filter((content) => content.includes(SECRET))).toEqual([]);
  });
});

it("what is mounted below an area is not opened", async () => {
  const area = { kind: "root" as const, path: "/", shownAs: "/", writable: false };
  const context = { ...scene.context(), workspace: { ...scene.workspace, roots: [area] } };
  for (const path of ["/proc/self/environ", "/proc/version", "/sys/kernel/uevent_seqnum"]) {
    const read = scene.tools.find(({ name }) => name === "read_file")?.run({ file_path: path }, context);
    await expect(read).rejects.toThrow(/another file system/);
  }
  for (const path of ["/proc/self", "/sys/kernel"]) {
    const list = scene.tools.find(({ name }) => name === "glob")?.run({ pattern: "*", path }, context);
    await expect(list).rejects.toThrow(/another file system/);
  }
});

import { describe, expect, test } from "vitest";
import { systemClock } from "../../../../src/shared/clock.ts";
import { PermissionRules, permissionFor } from "../../../../src/shared/protocol/permissions.ts";
import { createBaseTools } from "../../../../src/worker/tools/builtin/index.ts";

const verdict = (rules: PermissionRules | PermissionRules[], tool: string, input: unknown) =>
  permissionFor([rules].flat(), tool, input).verdict;
const bash = (command: string) => ["bash", { command }] as const;

describe("rules", () => {
  test("deny wins over ask, ask over allow, wherever they stand", () => {
    const rules = { allow: ["bash"], ask: ["bash(git push*)"], deny: ["bash(git push --force*)"] };
    expect(verdict(rules, ...bash("git status"))).toBe("allow");
    expect(verdict(rules, ...bash("git push origin"))).toBe("ask");
    expect(verdict(rules, ...bash("git push --force"))).toBe("deny");
  });

  test("a list of what is allowed is all that is allowed; without one everything else is", () => {
    expect(verdict({ allow: ["read_file"] }, "write_file", { file_path: "a" })).toBe("deny");
    expect(verdict({ deny: ["bash"] }, "write_file", { file_path: "a" })).toBe("allow");
    expect(verdict({ allow: ["read_file"], default: "ask" }, "write_file", {})).toBe("ask");
  });

  test("a later layer narrows and never widens", () => {
    expect(verdict([{ deny: ["bash"] }, { allow: ["bash"] }], ...bash("ls"))).toBe("deny");
    expect(verdict([{ allow: ["bash"] }, { ask: ["bash"] }], ...bash("ls"))).toBe("ask");
  });

  test("common names and patterns of names are understood", () => {
    expect(verdict({ deny: ["Bash(git:*)"] }, ...bash("git log"))).toBe("deny");
    expect(verdict({ deny: ["Read"] }, "read_file", { file_path: "a" })).toBe("deny");
    expect(verdict({ deny: ["mcp__github__*"] }, "mcp__github__merge", {})).toBe("deny");
    expect(verdict({ deny: ["mcp__github__*"] }, "mcp__gitlab__merge", {})).toBe("allow");
  });

  test("the name of an MCP server stands for each of its tools", () => {
    for (const how of ["deny", "ask"] as const) {
      expect(verdict({ [how]: ["mcp__github"] }, "mcp__github__merge", {})).toBe(how);
      expect(verdict({ [how]: ["mcp__git*"] }, "mcp__github__merge", {})).toBe(how);
      expect(verdict({ [how]: ["mcp__*hub"] }, "mcp__github__merge", {})).toBe(how);
      expect(verdict({ [how]: ["mcp__github(prod*)"] }, "mcp__github__merge", { to: "prod" })).toBe(how);
      expect(verdict({ [how]: ["mcp__git"] }, "mcp__github__merge", {})).toBe("allow");
    }
    expect(verdict({ allow: ["mcp__github"] }, "mcp__github__merge", {})).toBe("allow");
    expect(verdict({ allow: ["mcp__github"] }, "mcp__gitlab__merge", {})).toBe("deny");
    // A pattern of names that permits is one of tools.
    expect(verdict({ allow: ["mcp__*hub"] }, "mcp__github__merge", {})).toBe("deny");
  });

  test("a pattern that is too long to be matched permits nothing and refuses everything", () => {
    const rule = `bash(${"x".repeat(300)}*)`;
    expect(PermissionRules.safeParse({ deny: [rule] }).success).toBe(true);
    expect(verdict({ deny: [rule] }, ...bash("ls"))).toBe("deny");
    expect(verdict({ allow: [rule] }, ...bash(`${"x".repeat(300)} y`))).toBe("deny");
  });

  test("a rule that is none is refused when it is read", () => {
    for (const rule of ["", "bash(", "(git *)", "bash git", "x".repeat(400)])
      expect(PermissionRules.safeParse({ deny: [rule] }).success, rule).toBe(false);
  });
});

describe("commands", () => {
  const git = { allow: ["bash(git *)"] };

  test.for([
    "git status",
    "git",
    "git log --oneline",
    'git commit -m "a; b"',
    "git add . && git commit",
    "git diff 'a b'",
    "git add *.ts",
    "git add [ab] a?",
  ])("%s is git alone", (command) => expect(verdict(git, ...bash(command))).toBe("allow"));

  test.for([
    "git status; rm -rf .",
    "git status && rm x",
    "git status | sh",
    "git status & rm x",
    "git status\nrm x",
    "git $(rm x)",
    "git `rm x`",
    'git "$(rm x)"',
    "git $X",
    "git > .bashrc",
    "git < x",
    "(git status)",
    "{ git status; }",
    "gitx status",
    "git 'unclosed",
    "PAGER=sh git log",
    "./git status",
    "git <(rm x)",
    "git status #'\nrm x #'",
    "#git",
    "git status \\\n--short",
    "git add ~/x",
    "! git status",
    "time git status",
    "if git status; then git log; fi",
    "git\u00a0status",
    "git status\r",
    "git 'status\\",
    "git status \\",
    "'git status'",
    '"gi\\t" status',
    "X='a b' git status",
    "",
    " \t\n",
  ])("%j is more than git", (command) => expect(verdict(git, ...bash(command))).toBe("deny"));

  test.for([
    "rm x",
    "/bin/rm x",
    "ls; rm x",
    "ls && rm x",
    "r'm' x",
    "r\\m x",
    '"rm" x',
    "X=1 rm x",
    "ls | rm x",
    "echo $(rm x)",
    "echo `rm x`",
    "(rm x)",
    "rm   x",
    "rm",
    "r\\\nm x",
    '"r\\\nm" x',
    "X='a b' rm x",
    'X="a b" Y+=c rm x',
    "/bin/r[m] x",
    "/bin/r? x",
    "/bin/r* x",
    "~/rm x",
    "! rm x",
    "time rm x",
    "X=1; time -p rm x",
    "coproc rm x",
    "if rm x; then :; fi",
    "while rm x; do :; done",
    "until rm x; do :; done",
    "ls #'\nrm x #'",
    "ls;#'\nrm x #'",
  ])("%j is refused where rm is", (command) => {
    expect(verdict({ deny: ["bash(rm *)"] }, ...bash(command))).toBe("deny");
    expect(verdict({ ask: ["bash(rm *)"] }, ...bash(command))).toBe("ask");
  });

  test("a command behind more than is read is not passed over", () => {
    for (const lead of [" ", "\n", "\t", ";", "true;"]) {
      const command = `${lead.repeat(4_097)}rm x`;
      expect(verdict(git, ...bash(command)), JSON.stringify(lead)).toBe("deny");
      expect(verdict({ deny: ["bash(rm *)"] }, ...bash(command)), JSON.stringify(lead)).toBe("deny");
      expect(verdict({ ask: ["bash(rm *)"] }, ...bash(command)), JSON.stringify(lead)).toBe("ask");
    }
    expect(verdict(git, ...bash(`git ${"x".repeat(5_000)}`))).toBe("deny");
    expect(verdict({ deny: ["bash(rm *)"] }, ...bash(`ls ${"x".repeat(5_000)}`))).toBe("deny");
  });

  test("a program is refused also by its path, whatever variables are set for it", () => {
    const rules = { deny: ["bash(/bin/rm *)"] };
    for (const command of ["/bin/rm x", "X=1 /bin/rm x", "X='a b' /bin/rm x"])
      expect(verdict(rules, ...bash(command)), command).toBe("deny");
    expect(verdict(rules, ...bash("/bin/rmdir x"))).toBe("allow");
  });

  test.for([
    "ls a#b",
    "ls ''#b",
    "ls ''#'\nrm x\n'",
    "ls ''#'\\nrm x\\n'",
    "git show HEAD~1",
    "git commit -m 'what? #1 * [x]'",
    'git commit -m "it\'s ~ # 1"',
    "git log a\\*b",
    "git log \\#1",
    "git log 'a\nb'",
    "echo if time",
    "ls *.ts src/[ab]?",
    "X=1",
  ])("%j is read as it stands", (command) => {
    expect(verdict({ deny: ["bash(rm *)"] }, ...bash(command))).toBe("allow");
  });

  test("names of files that the shell looks up may be what is refused behind the program", () => {
    const push = { deny: ["bash(git push *)"] };
    for (const command of ["git pu[s]h origin", "git *", "/usr/bin/git p*", "X=1 git pus?"])
      expect(verdict(push, ...bash(command)), command).toBe("deny");
    for (const command of ["ls pu*", "git log 'pu*'", "git log src"])
      expect(verdict(push, ...bash(command)), command).toBe("allow");
    expect(verdict({ deny: ["bash(*push*)"] }, ...bash("git pu?h"))).toBe("deny");
    expect(verdict({ deny: ["bash(git:*)"] }, ...bash("ls *"))).toBe("allow");
    expect(verdict({ allow: ["bash(git log *)"] }, ...bash("git l?g"))).toBe("deny");
  });

  test("what is refused by name leaves the rest alone", () => {
    expect(verdict({ deny: ["bash(rm *)"] }, ...bash("ls -l rm.txt"))).toBe("allow");
  });
});

describe("paths", () => {
  const secrets = { deny: ["read_file(secrets/**)", "read_file(.env*)"] };

  test.for([
    "secrets/key",
    "./secrets/key",
    "a/../secrets/key",
    "secrets//key",
    "/srv/repo/secrets/key",
    ".env",
    "app/.env.local",
  ])("%s is refused", (file_path) => expect(verdict(secrets, "read_file", { file_path })).toBe("deny"));

  test.for(["src/secrets.ts", "secretsx/key", "env", "docs/a.env"])("%s is not", (file_path) =>
    expect(verdict(secrets, "read_file", { file_path })).toBe("allow"),
  );

  test("one star stays within a directory, two go on", () => {
    const docs = (pattern: string) => (file_path: string) =>
      verdict({ allow: [`write_file(${pattern})`] }, "write_file", { file_path });
    expect(docs("docs/*")("docs/a.md")).toBe("allow");
    expect(docs("docs/*")("docs/a/b.md")).toBe("deny");
    expect(docs("docs/**")("docs/a/b.md")).toBe("allow");
    expect(docs("docs/**")("docs/../src/a.ts")).toBe("deny");
    expect(docs("**/*.md")("a.md")).toBe("allow");
    expect(docs("*.md")("deep/down/a.md")).toBe("allow");
  });

  test("two stars between slashes stand for no directory, too, where a path is refused", () => {
    const rules = { deny: ["read_file(src/**/key)"] };
    for (const file_path of ["src/key", "src/a/key", "/srv/src/a/b/key"])
      expect(verdict(rules, "read_file", { file_path }), file_path).toBe("deny");
    for (const file_path of ["src/monkey", "src/key/a", "key"])
      expect(verdict(rules, "read_file", { file_path }), file_path).toBe("allow");
  });

  test("a path is judged by the member that the tool reads, and without one it is refused", () => {
    const rules = { deny: ["grep(secrets/**)"] };
    const misled = { pattern: "x", file_path: "docs/a", path: "secrets" };
    expect(verdict(rules, "grep", misled)).toBe("deny");
    expect(verdict({ allow: ["grep(docs/**)"] }, "grep", misled)).toBe("deny");
    const also = { file_path: "secrets/a", path: "docs/a" };
    expect(verdict({ deny: ["read_file(secrets/**)"] }, "read_file", also)).toBe("deny");
    expect(verdict({ allow: ["read_file(docs/**)"] }, "read_file", also)).toBe("deny");
    for (const file_path of [undefined, 1, ["docs/a"], "a/".repeat(2_049)]) {
      expect(verdict({ deny: ["read_file(secrets/**)"] }, "read_file", { file_path })).toBe("deny");
      expect(verdict({ allow: ["read_file(**)"] }, "read_file", { file_path })).toBe("deny");
    }
  });

  test("a backslash, which may be a part of a name, is permitted by no pattern", () => {
    expect(verdict({ allow: ["read_file(docs/**)"] }, "read_file", { file_path: "docs\\a" })).toBe("deny");
    expect(verdict({ deny: ["read_file(docs/**)"] }, "read_file", { file_path: "docs\\a" })).toBe("deny");
  });

  test("an absolute pattern of a search is permitted only where everything is", () => {
    const glob = { pattern: "/srv/other/**" };
    expect(verdict({ allow: ["glob(.)"] }, "glob", { pattern: "**" })).toBe("allow");
    expect(verdict({ allow: ["glob(.)"] }, "glob", glob)).toBe("deny");
    expect(verdict({ deny: ["glob(secrets/**)"] }, "glob", glob)).toBe("deny");
    // The pattern of another search is no path.
    const grep = { pattern: "/api/", path: "src/a" };
    expect(verdict({ allow: ["grep(src/**)"] }, "grep", grep)).toBe("allow");
  });

  test("a search is refused above whatever the pattern may name", () => {
    const deny = (pattern: string, path?: string) =>
      verdict({ deny: [`grep(${pattern})`] }, "grep", { pattern: "key", path });
    expect(deny("**/secrets/**", "src")).toBe("deny");
    expect(deny("src/*/secrets/**", "src/a")).toBe("deny");
    expect(deny("src/*/secrets/**", "docs/a")).toBe("allow");
    expect(deny("src/s*", "src")).toBe("deny");
    expect(deny("src/s*", "srcs")).toBe("allow");
    for (const root of ["", ".", "/", undefined]) expect(deny("secrets/**", root)).toBe("deny");
  });

  test("a search that names its directory from the root, or from above the workspace, may be above what is refused", () => {
    const deny = (pattern: string, path: string) =>
      verdict({ deny: [`grep(${pattern})`] }, "grep", { pattern: "key", path });
    for (const path of ["/work/agent", "/work/agent/src", "..", "../agent", "src/../../agent"])
      expect(deny("secrets/**", path), path).toBe("deny");
    expect(deny("secrets/**", "..agent")).toBe("allow");
    expect(deny("/data/secrets/**", "/")).toBe("deny");
    expect(deny("/data/secrets/**", "/data")).toBe("deny");
    expect(deny("/data/secrets/**", "/data/docs")).toBe("allow");
  });

  test("a search that begins above what is refused is refused, too", () => {
    const rules = { deny: ["grep(secrets/**)"] };
    expect(verdict(rules, "grep", { pattern: "key" })).toBe("deny");
    expect(verdict(rules, "grep", { pattern: "key", path: "secrets/a" })).toBe("deny");
    expect(verdict(rules, "grep", { pattern: "key", path: "src" })).toBe("allow");
  });
});

describe("other tools", () => {
  test("are refused by any text that they get, or by the JSON", () => {
    const internal = { deny: ["fetch(https://internal*)"] };
    for (const input of [
      { url: "https://internal/x" },
      { url: "https://internal/x", z: 1 },
      { z: "a", url: "https://internal/x" },
      { urls: ["https://docs", "https://internal/x"] },
      { request: { to: [{ url: "https://internal/x" }] } },
      { url: "https://docs", more: "x".repeat(5_000) },
    ])
      expect(verdict(internal, "fetch", input), JSON.stringify(input).slice(0, 80)).toBe("deny");
    expect(verdict(internal, "fetch", { url: "https://docs/internal", z: 1 })).toBe("allow");
    expect(verdict({ deny: ['pay(*"amount":1000*)'] }, "pay", { amount: 1000, to: "x" })).toBe("deny");
    expect(verdict({ ask: ['pay(*"amount":1000*)'] }, "pay", { amount: 1000, to: "x" })).toBe("ask");
    expect(verdict({ deny: ["pay(*)"] }, "pay", null)).toBe("deny");
  });

  test("are refused by a path in any of its spellings, whatever stands beside it", () => {
    const secrets = { deny: ["mcp__fs__read(secrets/**)"] };
    for (const path of ["secrets/a", "./secrets/a", "/srv/secrets/a", "docs/../secrets/a"]) {
      expect(verdict(secrets, "mcp__fs__read", { path })).toBe("deny");
      expect(verdict(secrets, "mcp__fs__read", { file_path: "docs/a", path, z: 1 })).toBe("deny");
      expect(verdict(secrets, "mcp__fs__read", { file_path: path, path: "docs/a" })).toBe("deny");
    }
    expect(verdict(secrets, "mcp__fs__read", { path: "docs/a" })).toBe("allow");
  });

  test("are permitted by their paths, and without one only where each member is a text that matches", () => {
    const docs = { allow: ["fetch(https://docs*)"] };
    expect(verdict(docs, "fetch", { url: "https://docs/a" })).toBe("allow");
    expect(verdict(docs, "fetch", { url: "https://docs/a", mirror: "https://docs/b" })).toBe("allow");
    for (const input of [
      { url: "https://internal", z: "https://docs" },
      { url: "https://docs", z: 1 },
      { url: ["https://docs"] },
      {},
      null,
    ])
      expect(verdict(docs, "fetch", input), JSON.stringify(input)).toBe("deny");
    const pay = { allow: ['pay(*"to":"alice"*)'] };
    expect(verdict(pay, "pay", { to: "bob", x: { to: "alice" } })).toBe("deny");
    const files = { allow: ["mcp__fs__read(docs/**)"] };
    expect(verdict(files, "mcp__fs__read", { path: "docs/a" })).toBe("allow");
    expect(verdict(files, "mcp__fs__read", { path: "docs/../secrets" })).toBe("deny");
    // What a tool calls a path is what a rule about paths means; each of them.
    expect(verdict(files, "mcp__fs__write", { path: "docs/a", content: "x", mode: 1 })).toBe("deny");
    const writing = { allow: ["mcp__fs__write(docs/**)"] };
    expect(verdict(writing, "mcp__fs__write", { path: "docs/a", content: "x", mode: 1 })).toBe("allow");
    expect(verdict(writing, "mcp__fs__write", { path: "docs/a", file_path: "secrets/a" })).toBe("deny");
    expect(verdict(writing, "mcp__fs__write", { path: ["docs/a"], content: "docs/a" })).toBe("deny");
  });

  test("a skill is judged by its name, whichever of its files is meant; a message by its text", () => {
    const message = { target_agent_id: "parent", message: "half done" };
    expect(verdict({ allow: ["send_agent_message(half *)"] }, "send_agent_message", message)).toBe("allow");
    expect(verdict({ deny: ["send_agent_message(half *)"] }, "send_agent_message", message)).toBe("deny");
    for (const input of [{ name: "deploy" }, { name: "deploy", file: "SKILL.md" }]) {
      expect(verdict({ deny: ["skill(deploy)"] }, "skill", input)).toBe("deny");
      expect(verdict({ allow: ["skill(deploy)"] }, "skill", input)).toBe("allow");
      expect(verdict({ deny: ["skill(review)"] }, "skill", input)).toBe("allow");
    }
  });

  test("an input that has no JSON is refused", () => {
    const knot: Record<string, unknown> = {};
    knot.self = knot;
    expect(verdict({ deny: ["fetch(x*)"] }, "fetch", knot)).toBe("deny");
    expect(verdict({ allow: ["fetch(x*)"] }, "fetch", knot)).toBe("deny");
  });
});

test("each built-in tool is judged by a member that it reads, whatever else the input says", () => {
  const judged: Record<string, string> = {
    read_file: "file_path",
    write_file: "file_path",
    edit_file: "file_path",
    glob: "path",
    grep: "path",
    send_agent_message: "message",
  };
  for (const { name, inputSchema } of createBaseTools({ clock: systemClock })) {
    if (name === "ask_parent") continue;
    const member = judged[name] ?? "";
    expect(inputSchema.properties, name).toHaveProperty(member);
    const decoys = { command: "a/b", file_path: "a/b", path: "a/b", message: "a/b", name: "a/b", z: 1 };
    expect(verdict({ deny: [`${name}(x/y)`] }, name, { ...decoys, [member]: "x/y" }), name).toBe("deny");
    expect(verdict({ allow: [`${name}(x/y)`] }, name, { ...decoys, [member]: "x/y" }), name).toBe("allow");
    expect(verdict({ allow: [`${name}(a/b)`] }, name, { ...decoys, [member]: "x/y" }), name).toBe("deny");
  }
});

describe("what it costs", () => {
  const cpuMsOf = (work: () => void) => {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  };

  test("the worst pattern against the longest text is done at once", () => {
    const rules = { deny: [`bash(${"*a".repeat(127)}b)`] };
    const ms = cpuMsOf(() => expect(verdict(rules, ...bash("a".repeat(4_000)))).toBe("allow"));
    expect(ms).toBeLessThan(2_000);
  });

  test("a path costs one pass, however many names it has", () => {
    const rules = { deny: ["read_file(**/secrets/**)"] };
    const input = { file_path: `${"a/".repeat(2_047)}a` };
    const ms = cpuMsOf(() => {
      for (let call = 0; call < 64; call += 1) expect(verdict(rules, "read_file", input)).toBe("allow");
    });
    expect(ms).toBeLessThan(2_000);
  });

  test("rules that cannot all be held against a call in time refuse it", () => {
    const longest = "a".repeat(4_000);
    const many = (pattern: (i: number) => string) => {
      const rules = Array.from({ length: 64 }, (_, i) => pattern(i));
      const layer = { deny: rules, ask: rules, allow: rules };
      return [layer, layer, layer, layer];
    };
    const words = many((i) => `bash(*b${"a".repeat(200)}${i}*)`);
    const paths = many((i) => `read_file(**/${"*a".repeat(110)}${i}b)`);
    const names = many((i) => `${"*a".repeat(60)}${i}`);
    const ms = cpuMsOf(() => {
      for (let call = 0; call < 16; call += 1) {
        expect(verdict(words, ...bash(longest))).toBe("deny");
        expect(verdict(paths, "read_file", { file_path: longest })).toBe("deny");
        expect(verdict(names, "a".repeat(100_000), {})).toBe("deny");
      }
    });
    expect(ms).toBeLessThan(6_000);
  });

  test("what is not known in time is permitted by no rule, and refused by each", () => {
    const slow = Array.from({ length: 63 }, (_, i) => `*${i}(**/${"*a".repeat(110)}b)`);
    const input = { file_path: "a".repeat(4_000) };
    expect(verdict({ allow: [...slow, "read_file"] }, "read_file", input)).toBe("allow");
    const same = slow.map((rule) => rule.replace(/^\*\d+/, "read_file"));
    expect(verdict({ allow: [...same, "read_file"] }, "read_file", input)).toBe("deny");
    expect(verdict({ deny: [...same, "bash"] }, "read_file", input)).toBe("deny");
    expect(verdict({ ask: [...same, "bash"] }, "read_file", input)).toBe("ask");
    // The last rule of all takes more than is left.
    const last = { deny: [`grep(**/${"*a".repeat(120)}b)`] };
    expect(verdict(last, "grep", { path: input.file_path })).toBe("deny");
    // Words that begin as the pattern does are searched.
    const layer = { deny: Array.from({ length: 64 }, (_, i) => `bash(*${i}b*)`) };
    expect(verdict([layer, layer, layer], ...bash(input.file_path))).toBe("allow");
    expect(verdict([layer, layer, layer, layer, layer], ...bash(input.file_path))).toBe("deny");
  });

  test("a long list of rules leaves the longest command alone", () => {
    const deny = Array.from({ length: 64 }, (_, i) => `bash(*tool-${i} *)`);
    expect(verdict({ deny }, ...bash(`X=1 /bin/echo ${"abcd ".repeat(800)}`))).toBe("allow");
  });
});

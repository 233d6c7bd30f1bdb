import { expect, test } from "vitest";
import { type Environment, loadConfig } from "../../../src/shared/config.ts";
import { withoutSecrets } from "../../../src/shared/secrets.ts";

test.each([
  ["ANTHROPIC_API_KEY", "sk-canary 1"],
  ["SUBAGENT_CALLBACK_KEY", "lg-canary 1"],
  ["SUBAGENT_PRICES", '{"m": canary}'],
  ["SUBAGENT_MCP", '{"mcpServers": {"a": {"url": "http://x", "headers": {"Key": "canary"}'],
])("%s that cannot be used is refused without its value", (name, value) => {
  const load = () => loadConfig({ [name]: value });
  expect(load).toThrow(new RegExp(`^${name} .*cannot be used`));
  expect(load).not.toThrow(/canary/);
});

test("of a file that is no list of prices nothing is shown", () => {
  const readText = () => "canary-of-a-key=0123";
  const load = () => loadConfig({ SUBAGENT_PRICES: "keys.env" }, { cwd: "/srv", readText });
  expect(load).toThrow(/SUBAGENT_PRICES cannot be used \(it is not JSON\): write /);
});

test("what the environment holds of secrets is masked from then on", () => {
  const [key, callback] = ["sk-canary-0123456789abcdef", "lg-canary-fedcba9876543210"];
  loadConfig({ ANTHROPIC_API_KEY: key, SUBAGENT_CALLBACK_KEY: callback });
  expect(withoutSecrets(`${key} and ${callback}`)).toBe("[redacted] and [redacted]");
});

test("the risk of commands without a sandbox is accepted by its own variable alone", () => {
  const bash = (env: Environment) => loadConfig(env).bash;
  expect(bash({ SUBAGENT_BASH: "unsandboxed" })).toEqual({ mode: "unsandboxed", acceptRisk: false });
  expect(bash({ SUBAGENT_BASH_ACCEPT_RISK: "yes" })).toEqual({ mode: "sandboxed", acceptRisk: true });
});

test("a list of MCP servers is found from where the command was called", () => {
  const read: string[] = [];
  const readText = (path: string) => {
    read.push(path);
    return '{"mcpServers": {"crm": {"url": "http://127.0.0.1:1/mcp"}}}';
  };
  const { mcpServers } = loadConfig({ SUBAGENT_MCP: "servers.json" }, { cwd: "/srv", readText });
  expect(read).toEqual(["/srv/servers.json"]);
  expect(Object.keys(mcpServers)).toEqual(["crm"]);
});

test("replies are kept for a second at least, and folders are 32 at most", () => {
  expect(loadConfig({ SUBAGENT_KEPT_AFTER_ACK: "1s" }).timing.keptAfterAckMs).toBe(1_000);
  expect(() => loadConfig({ SUBAGENT_KEPT_AFTER_ACK: "999ms" })).toThrow(/SUBAGENT_KEPT_AFTER_ACK/);
  const folders = (count: number) => Array.from({ length: count }, (_, n) => `/f${n}`).join();
  expect(loadConfig({ SUBAGENT_SKILLS: folders(32) }).skills).toHaveLength(32);
  expect(() => loadConfig({ SUBAGENT_SKILLS: folders(33) })).toThrow(/SUBAGENT_SKILLS/);
});

/**
 * Pure: decides, by the names in a path, which files no tool reads and which none writes. Applies in the workspace and in
 * every open root, whatever its mode.
 *
 * 1. The checked path has no links: a name that leads to a refused file by a link is refused, too.
 * 2. Names are compared as by file systems that do not distinguish `.GIT` from `.git`.
 */
import { ToolFailure } from "../../../shared/errors.ts";
import { quotePath } from "./path.ts";

/** Directories that hold keys, tokens or the queue's own Redis. */
const SECRET_DIRECTORIES = new Set([
  ".ssh",
  ".gnupg",
  ".aws",
  ".azure",
  ".kube",
  ".docker",
  ".password-store",
  ".subagent-queue",
]);
/** Directory name of the private Redis; Node adds six characters. */
const PRIVATE_REDIS = /^subagent-queue-[a-z0-9]{6}$/;

/** Files that hold keys, tokens or passwords. `.env.example` and similar files are meant to be read. */
const SECRET_FILES = [
  /^\.env(?!.*\.(example|sample|template|dist)$)/,
  /^\.(npmrc|yarnrc\.yml|netrc|pypirc|pgpass|my\.cnf|git-credentials|htpasswd|dockercfg|boto)$/,
  /^_netrc$/,
  /^id_(rsa|dsa|ecdsa|ed25519)(_sk)?$/,
  /\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk)$/,
  /^(credentials|service[-_]account.*)\.json$/,
  /^secrets?\.(json|ya?ml|toml)$/,
];
/** Files in a `.git` directory that may hold tokens, in the addresses of remotes. */
const GIT_CONFIG = /^config(\.worktree)?$/;

/** Directories whose files a program runs or obeys by itself: writing there means running code. */
const EXECUTED_DIRECTORIES = new Set([
  ".git",
  ".husky",
  ".githooks",
  ".vscode",
  ".idea",
  ".devcontainer",
  ".claude",
  ".codex",
  ".cursor",
  ".gemini",
  ".windsurf",
  ".circleci",
  ".buildkite",
]);
const EXECUTED_FILES = [
  /^\.git(modules|attributes)?$/,
  /^\.mcp\.json$/,
  /^\.(bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|zshenv|zprofile|zlogin|envrc|inputrc|vimrc|exrc)$/,
  /^\.(gitlab-ci|travis|pre-commit-config|drone)\.ya?ml$/,
  /^(azure-pipelines|bitbucket-pipelines)\.ya?ml$/,
  /^jenkinsfile$/,
];
const WORKFLOWS = /(^|\/)\.(github|gitea|forgejo)\/(workflows|actions)(\/|$)/;

/** Folds a name: to such a file system the long s is an s, too, and some ignore invisible characters. */
function folded(name: string): string {
  return name
    .replace(/\p{DI}/gu, "")
    .toUpperCase()
    .toLowerCase();
}

/** Checks whether the file or directory at these components holds secrets and is never read. */
export function isSecret(segments: readonly string[]): boolean {
  const names = segments.map(folded);
  const file = names.at(-1) ?? "";
  return (
    names.some((name) => SECRET_DIRECTORIES.has(name) || PRIVATE_REDIS.test(name)) ||
    SECRET_FILES.some((pattern) => pattern.test(file)) ||
    (GIT_CONFIG.test(file) && names.includes(".git"))
  );
}

/** Checks whether a program would run or obey the file at these components, so that it is never written. */
export function isExecuted(segments: readonly string[]): boolean {
  const names = segments.map(folded);
  const file = names.at(-1) ?? "";
  return (
    names.some((name) => EXECUTED_DIRECTORIES.has(name)) ||
    EXECUTED_FILES.some((pattern) => pattern.test(file)) ||
    WORKFLOWS.test(names.join("/"))
  );
}

/** @throws {ToolFailure} about `path`, the model's spelling, if the entry at `segments` is never read. */
export function refuseSecret(segments: readonly string[], path: string): void {
  if (!isSecret(segments)) return;
  throw new ToolFailure(`${quotePath(path)} may hold secrets and is never opened; go on without it.`);
}

/** @throws {ToolFailure} about `path`, the model's spelling, if the entry at `segments` is never written. */
export function refuseExecuted(segments: readonly string[], path: string): void {
  if (!isSecret(segments) && !isExecuted(segments)) return;
  throw new ToolFailure(
    `${quotePath(path)} is never written: it may hold secrets, or programs run what stands there.`,
  );
}

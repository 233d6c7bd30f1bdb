/**
 * Rules for names: each word has one meaning, and comes from the glossary at the top of docs/architecture.md or from the
 * field. File names may use only these words. Exports, record fields and Lua locals may not use {@link PRIVATE_WORDS}.
 */
import { posix } from "node:path";
import { isPropertySignatureDeclaration, isVariableStatement, type Node } from "typescript/unstable/ast";
import type { LuaFile } from "./lua.ts";
import { lineOf, type Source, type Violation } from "./source.ts";

/** Standard terms of the field and of the tools in use. File names may use them besides the glossary's words. */
const FIELD_TERMS: ReadonlySet<string> = new Set(
  `acquire deliver requeue promote due overdue move pending reason effort continue stdio intake begin refuse job jobs schedule schedules definition definitions folders shipped inheritance front matter permission permissions profile profiles hook hooks skill skills names library fallback fence
  doorbell logs ps show abort account age base bash bubblewrap runsc egress connections destroy choose fan out holder unconfined withheld include push repetition runner seccomp
  abort account ack address agents announce announcer answer anthropic api app append as ask assistant auth balance banner batch block board body
  attachments boundary bounds budget builder builtin bull bundled cache call callback callbacks calls cancellation capability caps channel channels charge check checks
  child crashes detached registered reasons isolated processes runs clamp cli client clock cluster codec codecs command commands commit component computer config connection
  content context conversation cookie cost counter credential cron deadlines default detach diagnose digest directory disk
  disposables dns doctor document draft echo edit embedded encoder end envelope errors event events exact examine exchange
  execution executor facts failure fair feed file files finish fix flags flush fold format fragment gitignore glob global grep
  group guard hold orphan orphans hash head header hidden class health heartbeat hints http https hub id ids idempotency inbox index input inspect inspection
  installation interval isolate iterator json keep key keys kind ledger library limit limiter limits line linear lines list listener
  linked live load local lock log logger loop lua mailbox main map mask match matcher mcp measure message messages meter
  metrics model mount name network next number numbers offline open openapi operation options output package page parent
  parents parse path paths pattern pause pipeline player policy pool port price pricing printer private problem process
  producer program progress project prometheus prompt properties protocol provider purchases query queue quota range rank read
  readiness record records redis register registry release renew render repair replies report request reservation reserve response rest
  result resume retries retry review revoke root roots route router routes row rows rpc rule rulebook rules run sample sandbox
  scenario scheduler schema script scripts search secrets send server service session settings settle shape shared shell signal signals idle
  slot slots resources snapshot socket source spawn spec sse start startup state status step steps stop store stream string subscriber
  supervisor survey system table tally task tasks terminal text thread threads tier time timeline timer timers token tokens
  transcript replay completion telemetry observe observer spans tool tools topic trace transport turn type types update url usage validation value verbs version view wait walk watch
  watchdog window web webhook webhooks wheel wire workers workspaces write`
    .split(/\s+/)
    .filter(Boolean),
);

/** Words to which only this project gave their meaning, each with the field's term. */
export const PRIVATE_WORDS: ReadonlyMap<string, string> = new Map([
  ["barren", "crashes without progress"],
  ["bell", "doorbell"],
  ["capable", "tools"],
  ["cure", "fix"],
  ["deserted", "no worker"],
  ["examination", "examine"],
  ["fate", "outcome"],
  ["fault", "error"],
  ["figures", "numbers"],
  ["gate", "limit"],
  ["hint line", "stop hints"],
  ["judge", "diagnose"],
  ["lane", "slot"],
  ["look", "check"],
  ["looks", "checks"],
  ["mend", "repair"],
  ["misfit", "mismatch"],
  ["patience", "timeout"],
  ["place", "slot"],
  ["quarantine", "isolation"],
  ["send back", "answer echo"],
  ["sight", "snapshot"],
  ["step signal", "abort signal"],
  ["stands", "stored"],
  ["strangers", "stray members"],
  ["strikes", "consecutive refusals"],
  ["surroundings", "environment"],
  ["touched", "hint grace"],
  ["tries", "attempts"],
  ["turnstile", "semaphore"],
  ["unwatched", "must finish"],
  ["valve", "pause reasons"],
  ["walls", "protections"],
  ["wish", "input"],
  ["wished", "requested"],
  ["wishes", "inputs"],
]);

/** Returns the words of the glossary: the first column of the table under the heading `Words`, or [] if it is missing. */
export function glossaryOf(document: string): string[] {
  const [, table = ""] = /^## Words\n([\s\S]*?)(?=\n## |$(?![\s\S]))/m.exec(document) ?? [];
  return [...table.matchAll(/^\| ([^|]+?) \|/gm)]
    .map(([, word = ""]) => word)
    .filter((word) => word !== "word" && !/^-+$/.test(word));
}

/** Finds names of files and folders with a word that is neither in the glossary nor a term of the field. */
export function findUnknownFileNames(paths: readonly string[], glossary: readonly string[]): Violation[] {
  const known = new Set([...FIELD_TERMS, ...glossary.flatMap(wordsOf)]);
  return paths.flatMap((path) => {
    if (!path.startsWith("src/")) return [];
    const unknown = wordsOf(posix.relative("src", path).replace(/\.\w+$/, "")).filter(
      (word) => !known.has(word),
    );
    if (unknown.length === 0) return [];
    const message = `"${unknown.join(", ")}" is no word of the glossary and no term of the field (test/architecture/names.ts)`;
    return [{ path, line: 1, message }];
  });
}

/** Finds private words in names of exports, interface fields and Lua locals; words in `still` are not renamed yet. */
export function findPrivateWords(
  sources: readonly Source[],
  lua: readonly LuaFile[],
  still: ReadonlySet<string>,
): Violation[] {
  const named = [...sources.flatMap(namesIn), ...lua.flatMap(localsIn)];
  return named.flatMap(({ name, path, lineOf }) => {
    const spaced = ` ${wordsOf(name).join(" ")} `;
    const word = [...PRIVATE_WORDS.keys()].find((each) => spaced.includes(` ${each} `) && !still.has(each));
    return word === undefined
      ? []
      : [{ path, line: lineOf(), message: `${name}: say "${PRIVATE_WORDS.get(word)}"` }];
  });
}

/** Finds pronouns that hide the actor (worker, sweeper, parent, agent, job) in comments and code. */
export function findHiddenActors(sources: readonly Source[], lua: readonly LuaFile[]): Violation[] {
  return [...sources, ...lua].flatMap(({ path, text }) =>
    [...text.matchAll(/\b(whoever|somebody|nobody|everybody)\b/gi)].map((match) => ({
      path,
      line: text.slice(0, match.index).split("\n").length,
      message: `"${match[0]}": name the worker, sweeper, parent, agent or job`,
    })),
  );
}

/** Comments that begin with a question word: they hide the noun or the verb that a reader looks for. */
export function findNounlessComments(sources: readonly Source[], lua: readonly LuaFile[]): Violation[] {
  return [...sources, ...lua].flatMap(({ path, text }) =>
    [...text.matchAll(/^[ \t]*(?:\/\*\*|\/\/|--) (What|Where|Whoever|By what|So long)\b/gm)].map((match) => ({
      path,
      line: text.slice(0, match.index).split("\n").length,
      message: `"${match[1]} …": begin with a noun (of a type or value) or a verb (of a function)`,
    })),
  );
}

interface Name {
  name: string;
  path: string;
  lineOf(): number;
}

/** Splits `spawnAll`, `spawn-all` and `spawn_all` into lower-case words. */
function wordsOf(name: string): string[] {
  const spaced = name.replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2").replaceAll(/([A-Z])([A-Z][a-z])/g, "$1 $2");
  return spaced
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter(Boolean);
}

function namesIn({ path, file, nodes }: Source): Name[] {
  const exported = file.statements.filter((statement) => /^export\b/.test(statement.getText()));
  const named: Node[] = exported.flatMap((statement) => {
    if (isVariableStatement(statement)) return statement.declarationList.declarations.map(({ name }) => name);
    const name: unknown = Reflect.get(statement, "name");
    return isNode(name) ? [name] : [];
  });
  const fields = nodes.filter(isPropertySignatureDeclaration).map(({ name }) => name);
  return [...named, ...fields].map((node) => ({
    name: node.getText(),
    path,
    lineOf: () => lineOf(file, node),
  }));
}

function localsIn({ path, text }: LuaFile): Name[] {
  return text.split("\n").flatMap((code, index) => {
    const [, names = ""] = /^\s*local (?:function )?([a-z_][a-z0-9_, ]*)/.exec(code) ?? [];
    return names.split(/[, ]+/).map((name) => ({ name, path, lineOf: () => index + 1 }));
  });
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "kind" in value;
}

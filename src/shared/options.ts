/** Checks the options that callers pass, with or without types. */
import { SubagentError } from "./errors.ts";
import { PREFIX_FORM, Prefix } from "./protocol/ids.ts";

/** Form of each option: a check of the value, and the end of the sentence "… must be …". */
export type OptionForms<Options> = Readonly<
  Record<keyof Options, readonly [fits: (value: unknown) => boolean, form: string]>
>;

/** `maker`: taker of the options, as in "… is no option of a worker"; `required`: options that must be given, default none. */
interface OptionRules {
  maker: string;
  required?: ReadonlySet<string>;
}

/**
 * Returns the problems of `options`: unknown names, because a misspelt one would be ignored silently, and values of a wrong
 * form. An undefined option counts as absent.
 */
export function optionProblems<Options extends object>(
  options: Options | undefined,
  forms: OptionForms<Options>,
  { maker, required = new Set() }: OptionRules,
): string[] {
  const given: Partial<Record<string, unknown>> = Object.fromEntries(Object.entries(options ?? {}));
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(forms, name));
  const known = Object.entries<OptionForms<Options>[keyof Options]>(forms);
  return [
    ...unknown.map((name) => `${name} is no option of ${maker}`),
    ...known.flatMap(([name, [fits, form]]) => {
      const isLeftOut = given[name] === undefined && !required.has(name);
      return isLeftOut || fits(given[name]) ? [] : [`${name} must be ${form}`];
    }),
  ];
}

/** Returns true for a string that is not empty. */
export const isText = (value: unknown): value is string => typeof value === "string" && value !== "";

const HOST_NAME = /^(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)$/i;

/** Returns true for a host as the header Host can name it, without its port. */
export function isHostName(text: string): boolean {
  return HOST_NAME.test(text);
}

/** Forms of options that several makers take. */
export const FLAG = [(value: unknown) => typeof value === "boolean", "true or false"] as const;
/** See {@link FLAG}. */
export const HOST = [isText, "a host name or an address"] as const;
/** See {@link FLAG}. */
export const PREFIX = [(value: unknown) => Prefix.safeParse(value).success, PREFIX_FORM] as const;
/** See {@link FLAG}. */
export const PORT = [
  (value: unknown) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 65_535,
  "a whole number from 0 to 65535",
] as const;
/** See {@link FLAG}. */
export const COUNT = [
  (value: unknown) => Number.isSafeInteger(value) && Number(value) > 0,
  "a whole number above 0",
] as const;

/** Throws `invalid_config` if there are `problems`: it says that `what` cannot be made, and lists each problem. */
export function refuseProblems(what: string, problems: readonly string[]): void {
  if (problems.length === 0) return;
  throw new SubagentError("invalid_config", `${what} cannot be made: ${problems.join("; ")}.`, { problems });
}

/**
 * Provides the packages that a parent's process loads at their first use. A bundler follows only an import, so the condition
 * `module` of package.json, which bundlers ask for and Node does not, names an entry point that runs this module first.
 */
import { destination, pino } from "pino";
import { Lexer, LineCounter, parseDocument } from "yaml";
import { provideYaml } from "./producer/definitions/front-matter.ts";
import { providePino } from "./shared/logger.ts";

providePino({ pino, destination });
provideYaml({ Lexer, LineCounter, parseDocument });

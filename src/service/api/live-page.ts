/**
 * The live page: files of `web/` that read the API's routes in a browser. They need no key, because they hold no data of an
 * installation; the requests that they send need one.
 *
 * 1. The policy allows only scripts and styles of this address, and does not allow text to become markup.
 */
import { readFile } from "node:fs/promises";
import { type Response, Router } from "express";
import { packagePath } from "../../shared/package.ts";
import { sendProblem } from "./problem.ts";
import { type SharedAnswer, sendShared, sharedAnswer } from "./shared-answer.ts";

const FILES: Readonly<Record<string, string>> = {
  "/": "page.html",
  "/page.css": "page.css",
  "/page.js": "page.js",
  "/client.js": "client.js",
  "/sightings.js": "sightings.js",
  "/view.js": "view.js",
};
/** Addresses of the page and its files. */
export const PAGE_PATHS: readonly string[] = Object.keys(FILES);
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join("; ");

/** Creates the router of the page's files. */
export function livePageRouter(): Router {
  const router = Router();
  const files = new Map<string, SharedAnswer>();
  const answerOf = async (file: string) => {
    const answer = files.get(file) ?? sharedAnswer(await readFile(packagePath(`web/${file}`)));
    files.set(file, answer);
    return answer;
  };
  for (const [path, file] of Object.entries(FILES))
    router.get(path, (_request, response) => {
      answerOf(file).then(
        (answer) => send(response, file, answer),
        (error: unknown) => sendProblem(response, error),
      );
    });
  return router;
}

function send(response: Response, file: string, answer: SharedAnswer): void {
  response.set("Content-Security-Policy", POLICY).set("Cache-Control", "no-cache").type(file);
  sendShared(response, answer);
}

/**
 * Options of V8 with which only a function that does much is optimized: fifteen times the work that V8 waits for by itself. A
 * test calls many functions a few times, and compiling them a second time cost 3 to 14 % of the CPU of the files where
 * it was measured. Only the V8 of Node 20 has that option; a later Node does not start with it. WebAssembly is compiled quickly,
 * not well: the parser that `fetch` loads cost each process 0.15 s.
 */
export const RARELY_OPTIMIZED: readonly string[] = [
  ...(process.versions.node.startsWith("20.") ? ["--interrupt-budget=1000000"] : []),
  "--liftoff-only",
];

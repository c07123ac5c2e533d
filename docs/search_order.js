/* Order of search results: guides before the pages that are looked up, and those before Python's names. */
const LOOKED_UP = /^(config|cli|architecture|results|glossary)$/;
var Scorer = {
  score: ([page, , , , score]) =>
    score - (page.startsWith("api/") ? 40 : LOOKED_UP.test(page) ? 15 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

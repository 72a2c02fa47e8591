"""The syntax of Markdown: the parser of markdown-it with rules for what goes beyond CommonMark.

The patterns `LINES`, `TERM`, `KEPT` and `MARKS` are such rules; `HEAD`, `SHOWN`, `EXPRESSION` and `VALUE` find texts in
markup. Words in capitals in a pattern are replaced by their `PARTS`.
"""

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from markdown_it import MarkdownIt
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin

from dragoman.formats.cancelling import check_cancelled

LINES = r"""  # lines that mark what follows, or stay
    (?P<indented>(?:!{3}|\?{3}\+?)[ ]*[\w-]+(?:[ ][\w-]+)*(?:[ ]+"(?P<t1>.*)")?|={3}[!+]{0,2}[ ]+"(?P<t2>.*)")
  | (?P<fence>`{3,}|~{3,}|:{3,})[ ]*\{(?:(?:button-\w+|div|figure|grid(?:-item)?|tab-set)\}.*|PROSE\}[ ]*(?P<t3>.*))OPTS
  | (?P<code>`{3,}|~{3,}|:{3,})[ ]*\{(?:CODE|(?P<directive>[\w:+-]+))\}.*(?:\n(?!PAD(?P=code)[`~: ]*$).*)*+(?:\n.*)?
  | :{2,}[ ]*(?:ATTRIBUTES|[\w.-]+)?(?:\[(?P<t4>LABEL)\])?(?:ATTRIBUTES)?(?:[ ]+(?P<t5>[^:\s](?:.*[^:\s])?))?[ :]*
  | /{3,}[ ]*(?:html\b.*|[\w-]+(?:[ ]*\|[ ]*(?P<t6>.*))?)? | \[![\w|-]+\][+-]?(?:[ ]+(?P<t7>.*))?
  | \$\$(?!.*\$\$)SOME.*\$\$(?:[ ]*[({].*[)}])?[.,;]? | \\\\?\[(?!.*\\\])SOME.*\\\][.,;]?
  | \\begin\{(?P<env>[\w*]+)\}SOME.*\\end\{(?P=env)\}.* | \\[a-zA-Z]+\*?(?:ATTRIBUTES|\[LABEL\])*
  | \{\{[<%][ ]*(?P<short>[\w-]*(?:code|highlight|math|mermaid)[\w-]*)(?:.*|SOMEPAD)\{\{[<%][ ]*/[ ]*(?P=short)\b.*
  | \{%-?[ ]*(?P<liquid>code|highlight|math|mermaid|comment)\b(?:.*|SOMEPAD)\{%-?[ ]*end(?P=liquid)\b.*
  | \{\{(?!.*\}\})(?:.*\n){1,9}?.*\}\} | \{%(?!.*%\})(?:.*\n){1,9}?.*%\} | [;-]*-8<-+.* | <<<[ ].*
  | (?:(?:\{\{(?:(?!\}\}).)*+\}\}|\{%(?:(?!%\}).)*+%\}|\{[ ]?[:.\#][^{}\n]*+\})[ ]*+)++
  | \*\[LABEL\]:[ ]*(?P<t8>.*) | \([^()\n]+\)= | \+{3}(?:[ ]*ATTRIBUTES)? | FIRST%[ ].*(?:\n%.*)*
  | FIRST(?:im|ex)port\b(?:.*[(\[{`]\nSOME[)\]}`].*|[ ](?:.*["'];?$|(?:default|const|function|class|async|\{|\*)).*REST)
  | (?P<drawn>FIRST\|[ |].*REST|\+[-=+:]{3,}\+REST|(?:.*\S[ ]{2}.*\n)?PAD-{2,}(?:[ ]+-{2,})+REST)"""
TERM = r"""  # a term before its definition, or before other terms
    (?!BLOCK)(?P<t1>[^\s:~](?:.*\S)?)[ \t]*$(?=\n(?:PAD(?!BLOCK)[^\s:~].*\n){0,9}?(?:PAD\n)?PAD[:~][ \t]+\S)"""
KEPT = r"""  # what stays in a paragraph
    \A\[[ x]\](?=\s) | \A:[ \t]+
  | \[\^[^\[\]\n]{1,100}\]:? | \[[ ]?\](?![(\[:]) | !?\[\[[^\[\]\n]{1,300}\]\] | \[_?TOC_?\]
  | \[(?=[^\[\]\n]{0,300}(?<![\w.])@\w)[^\[\]\n]{1,300}\](?![(\[]) | (?<![\w@/.])@[A-Z_][\w-]*(?:[:./][\w-]+)*
  | \{\{(?:(?!\{\{|\}\}).){1,1000}+\}\} | \{%(?:(?!\{%|%\}).){1,1000}+%\} | \{[\w:.+-]{1,100}\}`[^`]{1,500}`
  | \{(?=\s?[:\#.]|[%/$@!>=]|[^\s{}]{1,100}\}|\s?[.\#]?[\w-]{1,50}\s?=)[^{}]{0,500}\} | https?://[^\s<>\[\]]*[\w/]
  | \$\$[^$]{1,2000}\$\$ | (?<![\w$])\$(?![\s$]|\d[\d.,]*\s+[^\W\d_]{2})(?:[^$\\]|\\.){1,500}+(?<!\s)\$(?!\d)
  | \\\\?(?:(?P<b>\()|\[)(?=INNER*?(?:[=^_{}<>+]|\\[A-Z])|(?:(?![^\W\d_]{2})INNER)*+\\)INNER{1,1000}+\\(?(b)\)|\])
  | \\(?:@?ref|eqref|cite\w{0,9}|label|input|include\w{0,9})[({][^(){}\n]{0,200}[)}] | \\[A-Z]{2,20}(?=\{)
  | <(?P<code>code|kbd|samp|var|pre|script|style|math|svg)\b[^<>]{0,500}>(?:(?!</?(?P=code)\b).){0,2000}+</(?P=code)>
  | <[A-Z][A-Z\d+.-]{1,31}:[^<>\s]*> | <[\w.+-]{1,100}@[\w.-]{1,200}> | (?P<tag_close>(?=</)TAG) | TAG(?<=/>)
  | <(?=(?:area|br|col|embed|hr|img|input|source|wbr)\b)[^<>]{1,1000}> | (?P<tag_open>TAG)
  | (?<![\w:]):[A-Z][\w+-]{0,60}(?::(?![\w:])|(?=\[)) | \+\+[\w"'.-]+(?:\+[\w"'.-]+)*\+\+(?!\+)
  | (?:(?<=[\w)])(?P<sub>~)|\^)[^\s~^\[]{1,50}(?(sub)~|\^)(?![~^]) | (?-i:FORMULA)"""
MARKS = r"(?P<mark_open>[!^]?\[|(?<!\w)==(?=[^\s=]))|(?P<mark_close>\](?:\[LABEL\]|ADDRESS)?|(?<=[^\s=])==(?!\w))"
PARTS = {
    "TAG": r"(?:</?[A-Za-z][\w.-]*+(?=[\s/>])(?:[^<>{}\"']|\"[^\"]*+\"|'[^']*+'|BRACES)*+>|</?>)",
    "BRACES": r"\{(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\})*+\})*+\}",
    "ATTRIBUTES": r"\{[^{}\n]*\}",
    "ADDRESS": r"\((?:[^()\s{}]|\{[{%][^{}]*[%}]\})+\)",
    "LABEL": r"[^\[\]\n]*",
    "INNER": r"(?:(?!\\[()\[\]]).)",
    "FORMULA": r"(?<![^\W\d_])(?:[ckm]?m|[a-z]|(?:[A-Z][a-z]?|\(\w+\)){1,9})(?:[~^][\d+-]{1,6}[~^](?:[A-Z][a-z]?)*)+",
    "FIRST": r"(?<![^\n]\n)",  # after an empty line
    "BLOCK": r"(?:(?:[-+*>\#|]|\d+[.)])[ \t]|`{3})",
    "OPTS": r"(?:\nPAD(?:\#\|[ ]|:[\w-]+:).*)*+(?:\nPAD---(?:\n.*){0,50}?\nPAD---[ ]*$)?",
    "PAD": r"[ \t>]*+",
    "SOME": r"(?:.*\n){0,100}?",
    "REST": r"(?:\n.*\S.*)*",
    "PROSE": r"""(?:admonition|attention|aside|card|caution|danger|definition|deprecated|details|dropdown|epigraph|
        error|example|exercise|glossary|grid-item-card|hint|important|list-table|margin|note|quote|rubric|seealso|
        sidebar|solution|tab-item|table|theorem|tip|todo|topic|version\w+|warning)""",
    "CODE": r"""(?:bash|bibliography|code|code-\w+|contents|dot|glue|graphviz|image|include|index|js|julia|
        literalinclude|math|mermaid|ojs|plot|python|r|sh|sql|tableofcontents|toctree(?!\}[^`~]*?\w[ ]+<))""",
}  # PROSE and CODE list names of directives
HEAD = r"""(?:[:~]?[ \t]|>|[-*+\d.)]+[ \t])*+(?:\{(?!/\*)[^}]*.*|[`~:]{3,}[ ]*\{[\w:+-]+\}.*OPTS|`{3}[^`\n]*$|[:~].*
  | (?:!?\[|\]|<(?![!?]|(?:code|kbd|math|pre|samp|script|style|svg|textarea|var)\b))(?s:.*))"""  # markup before code
SHOWN = r"""  # a title of a link, or what an option or attribute shows
    (?:(?<=[\s"'{])|^(?P<key>PAD)[-:|\#]{0,2}[ ]?[\w-]*?|(?P<to>\][(:][\s>]*+(?:<[^<>]*+>|\S*+)[\s>]++|\}(?=`[^`<>]+<)))
    (?(to)|(?:aria-|fig-|img-)?(?:alt|cap(?:tion)?|description|details|header|label|placeholder|summary|tagline|[Tt]itle))
    (?(key)(?<![\s:]label)(?::[ \t]+|[ ]=[ ])|(?(to)|=\{?)(?=["'`(]))
    (?!["'`]?(?=[^\s"'`]*?\w[./\\_]\w)[^\s"'`]++(?:["'`]|[ ]*\r?$))  # unless it is the name of a file
    (?P<value>(?(key)\S.*(?:\n(?P=key)[ \t]+(?!(?:-[ ])?[\w-]+:[ \t])\S.*)*
      |(?:\([^()]*\)|`[^`<>]+(?<!\s)(?=\s*<)|(["'`])(?s:\\.|(?!\4).)*+\4)))"""
EXPRESSION = r"""(?<!=)>\s*[^\W\d_]{2}[^<>{}]*(?:\{|</)  # words between tags, or a string of several words
  | (?:(?<!Name=)[{(\[,:?+&|>]|=[ ])[ ]?(["'`])[^\W\d_](?:(?!\1)[^\n]){0,300}?\s[^\W\d_]"""
VALUE = r"""(["'`])(?P<quoted>(?:(?!\1|\$\{)[^\\\r\n])*+)\1 | `(?P<role>[^`]+) | (?<=[ \t])
    (?!(?:y|n|yes|no|true|false|on|off|null)\Z)  # as YAML without escapes
    (?P<plain>[^\s"'`|>&*!?%@\[\](){}\#,-](?:(?!:[ \t]|:\Z|[ \t]\#)[^\r\n])*+)"""
COMPONENTS = "(?:(?:TAG|BRACES)[ \t]*+)++"
_REASONS = {"directive": "its directive is unknown", "drawn": "it is in a table that is drawn with characters"}
MOST_NESTED = 20  # blocks or brackets in one another


def build_parser(with_components: bool) -> MarkdownIt:
    """Build the parser of Markdown, or of MDX with `with_components`."""
    md = MarkdownIt("commonmark", {"maxNesting": MOST_NESTED}).enable(["table", "strikethrough"]).disable("inline")
    md.validateLink = lambda url: True  # whatever it names, it is no text
    md.use(deflist_plugin).use(footnote_plugin, inline=False, move_to_end=False)
    md.disable(["code", "html_block"] if with_components else [])
    lines = compiled(rf"(?:{LINES}{f'|{COMPONENTS}' * with_components})[ \t]*$", re.MULTILINE)
    interrupted = ["paragraph", "reference", "blockquote", "list"]
    md.block.ruler.before("fence", "lines", partial(_read_lines, lines), {"alt": interrupted})
    md.block.ruler.before(
        "paragraph", "terms", partial(_read_lines, compiled(TERM, re.MULTILINE)), {"alt": ["paragraph"]}
    )
    kept, inline = compiled(KEPT + "|BRACES" * with_components, re.DOTALL | re.IGNORECASE), md.inline.ruler
    inline.before("escape", "kept", partial(_keep, kept))
    inline.after("image", "marks", partial(_keep, compiled(MARKS)))
    for name, rule in zip(inline.get_active_rules(), inline.getRules(""), strict=True):
        inline.at(name, partial(_locate, rule))
    md.inline.terminator_re = re.compile(f"{md.inline.terminator_re.pattern}|https?://|{PARTS['FORMULA']}")
    return md


@cache
def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern, with its parts for the words in capitals."""
    for name, part in PARTS.items():
        pattern = pattern.replace(name, part)
    return re.compile(pattern, re.VERBOSE | flags)


def _read_lines(pattern: re.Pattern[str], state: Any, line: int, end: int, silent: bool) -> bool:
    """Take out lines of a pattern, or the end of a directive. What is indented after an admonition is text again."""
    check_cancelled()
    begin, opened = state.bMarks[line] + state.tShift[line], state.env.setdefault("opened", [])
    closes = opened and re.compile(rf"{opened[-1]}+[ \t]*$", re.MULTILINE).match(state.src, begin)
    match = closes or pattern.match(state.src, begin, state.eMarks[end - 1])
    if match is None or state.is_code_block(line):
        return False
    groups = {name: words for name, words in match.groupdict().items() if words}
    title = next((name for name in groups if name[0] == "t"), None)
    last = body = line + 1 + match[0].count("\n")
    while "indented" in groups and last < end and (state.isEmpty(last) or state.sCount[last] >= state.sCount[line] + 4):
        last += 1
    if silent or ("indented" in groups and title is None and all(map(state.isEmpty, range(body, last)))):
        return silent
    opened[len(opened) - bool(closes) :] = [groups["fence"]] if "fence" in groups else []
    token = state.push("raw", "", 0)
    token.map, token.info = [line, body], next((_REASONS[name] for name in groups if name in _REASONS), "")
    if title:
        token = state.push("inline", "", 0)
        token.content, token.map = groups[title], [line, line + 1]
        token.meta = {"end": match.end(title) - state.src.rfind("\n", 0, begin) - 1}
    if body < last:
        outer = state.blkIndent, state.lineMax, state.level
        state.blkIndent, state.lineMax, state.level = state.sCount[line] + 4, last, state.level + 1
        state.md.block.tokenize(state, body, last)
        state.blkIndent, state.lineMax, state.level = outer
    state.line = last
    return True


def _keep(pattern: re.Pattern[str], state: Any, silent: bool) -> bool:
    """Take a piece of a paragraph that stays out of its words."""
    check_cancelled()
    match = pattern.match(state.src, state.pos, state.posMax)
    if match is None or (silent and pattern is compiled(MARKS)):  # labels of links count brackets
        return False
    if not silent:
        kind = match.lastgroup or ""
        state.push(kind if kind.endswith(("_open", "_close")) else "kept", "", 0)
    state.pos = match.end()
    return True


def _locate(rule: Callable[[Any, bool], bool], state: Any, silent: bool) -> bool:
    """Run a rule, and give the last token that it pushes the beginning and end of what it read as its `map`."""
    begin, count, is_found = state.pos, len(state.tokens), rule(state, silent)
    if is_found and len(state.tokens) > count and state.tokens[-1].type != "text":
        state.tokens[-1].map = [begin, state.pos]
    return is_found

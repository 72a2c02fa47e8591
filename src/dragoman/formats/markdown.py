"""Markdown: paragraphs, headings, items, cells and titles, with the emphasis, links and code in them. Syntax beyond
CommonMark is listed in two tables of patterns. A translated paragraph becomes one line.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin

from dragoman.formats.document import Left, Spliced, Where, check_cancelled, line_of
from dragoman.formats.inline import InlinePart
from dragoman.formats.lines import without_packing
from dragoman.formats.reading import decoded
from dragoman.surface.sentences import has_words

_LINES = r"""  # lines that mark what follows, or stay
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
_TERM = r"""  # a term before its definition, or before other terms
    (?!BLOCK)(?P<t1>[^\s:~](?:.*\S)?)[ \t]*$(?=\n(?:PAD(?!BLOCK)[^\s:~].*\n){0,9}?(?:PAD\n)?PAD[:~][ \t]+\S)"""
_KEPT = r"""  # what stays in a paragraph
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
_KINDS = {"open": "open", "close": "close", "special": "words", "softbreak": "words"}
_MARKS = r"(?P<mark_open>[!^]?\[|(?<!\w)==(?=[^\s=]))|(?P<mark_close>\](?:\[LABEL\]|ADDRESS)?|(?<=[^\s=])==(?!\w))"
_PARTS = {
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
}  # replace the words in capitals in the patterns; PROSE and CODE list names of directives
_HEAD = r"""(?:[:~]?[ \t]|>|[-*+\d.)]+[ \t])*+(?:\{(?!/\*)[^}]*.*|[`~:]{3,}[ ]*\{[\w:+-]+\}.*OPTS|`{3}[^`\n]*$|[:~].*
  | (?:!?\[|\]|<(?![!?]|(?:code|kbd|math|pre|samp|script|style|svg|textarea|var)\b))(?s:.*))"""  # markup before code
_SHOWN = r"""  # a title of a link, or what an option or attribute shows
    (?:(?<=[\s"'{])|^(?P<key>PAD)[-:|\#]{0,2}[ ]?[\w-]*?|(?P<to>\][(:][\s>]*+(?:<[^<>]*+>|\S*+)[\s>]++|\}(?=`[^`<>]+<)))
    (?(to)|(?:aria-|fig-|img-)?(?:alt|cap(?:tion)?|description|details|header|label|placeholder|summary|tagline|[Tt]itle))
    (?(key)(?<![\s:]label)(?::[ \t]+|[ ]=[ ])|(?(to)|=\{?)(?=["'`(]))
    (?!["'`]?(?=[^\s"'`]*?\w[./\\_]\w)[^\s"'`]++(?:["'`]|[ ]*\r?$))  # unless it is the name of a file
    (?P<value>(?(key)\S.*(?:\n(?P=key)[ \t]+(?!(?:-[ ])?[\w-]+:[ \t])\S.*)*
      |(?:\([^()]*\)|`[^`<>]+(?<!\s)(?=\s*<)|(["'`])(?s:\\.|(?!\4).)*+\4)))"""
_EXPRESSION = r"""(?<!=)>\s*[^\W\d_]{2}[^<>{}]*(?:\{|</)  # words between tags, or a string of several words
  | (?:(?<!Name=)[{(\[,:?+&|>]|=[ ])[ ]?(["'`])[^\W\d_](?:(?!\1)[^\n]){0,300}?\s[^\W\d_]"""
_VALUE = r"""(["'`])(?P<quoted>(?:(?!\1|\$\{)[^\\\r\n])*+)\1 | `(?P<role>[^`]+) | (?<=[ \t])
    (?!(?:y|n|yes|no|true|false|on|off|null)\Z)  # as YAML without escapes
    (?P<plain>[^\s"'`|>&*!?%@\[\](){}\#,-](?:(?!:[ \t]|:\Z|[ \t]\#)[^\r\n])*+)"""
_QUOTES = {'"': "'", "'": "’", "`": "'"}  # and what replaces them in what they quote
_COMPONENTS = "(?:(?:TAG|BRACES)[ \t]*+)++"
_REASONS = {"directive": "its directive is unknown", "drawn": "it is in a table that is drawn with characters"}
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_FRONT_MATTER = re.compile(r"\ufeff?(?:(---|\+\+\+)[ \t]*\r?\n.*?^\1[ \t]*(?:\r?\n|\Z))?", re.DOTALL | re.MULTILINE)
_MOST_MARKS = 10_000  # in a paragraph, because the time to parse them can grow with the square of their number
_MOST_NESTED = 20  # blocks or brackets in one another
_MARK = re.compile(r"[^\w\s.,;'\"()-]")
_NO_WORDS = re.compile(r"<(script|pre|style|textarea)\b.*|<!--.*?(?:-->|\Z)|<[^<>]*>|&\w+;", re.DOTALL | re.IGNORECASE)
_SPECIAL = re.compile(r"[\\*`\[\]<|]|(?<!\w)_+(?=[^\s_])|(?<=[^\s_])_+(?!\w)")
_ITEM = re.compile(r"\A(\d+(?=[.)])|(?=[#>+-]))(.)(?=\s)")  # what would make an item or a heading of a text


class Markdown(Spliced):
    """A text in Markdown, or in MDX if it is read `with_components`."""

    keeps_empty = False  # ** ** is no emphasis, and **** no mark at all

    def __init__(self, content: str, encoding: str, with_components: bool = False) -> None:
        super().__init__(content, encoding)
        end = len(content) - len(_FRONT_MATTER.sub("", content, count=1))
        shown = (
            found for found in _compiled(_SHOWN, re.MULTILINE).finditer(content, 0, end) if has_words(found["value"])
        )
        self.left += [Left("it is in the front matter", line_of(content, found.span("value"))) for found in shown]
        self._lines = [match.span() for match in _LINE.finditer(content, end)]
        self._escaped = {ord(mark): f"\\{mark}" for mark in re.findall(r"\\([${}~^=])", content)}
        self._parser, self._references, above = _parser(with_components), dict[str, Any](), ""
        for token in self._parser.parse(content[end:], self._references):
            check_cancelled()
            reason = _reason(token)
            if token.type in ("fence", "html_block", "raw") and token.map and not reason:
                self._add_shown(self._lines[token.map[0]][0], self._lines[token.map[1] - 1][1])
            if token.type == "inline" and not reason:
                if places := self._places(token, end, is_cell=above in ("td_open", "th_open")):
                    self._add_texts(token.content, places)
                    end = places[-1]
                elif has_words(token.content):
                    reason = "it was not found in the file"
            if reason and token.map:
                self.left.append(Left(reason, line_of(content, self._lines[token.map[0]])))
            above = token.type
        for first, last in (each["map"] for each in self._references.get("references", {}).values()):
            self._add_shown(self._lines[first][0], self._lines[last - 1][1])
        self._inner.sort(key=lambda block: block.where)
        slugs = {re.sub(r"[^\w -]", "", line).strip().lower().replace(" ", "-") for line in content.splitlines()}
        slugs -= {*re.findall(r"(?:\b(?:id|name)=[\"']?|\((?=[\w-]+\)=))([\w-]+)", content)}
        if links := [link for link in re.findall(r"\](?:\(|:[ ]*)#([^\s()]+)", content) if link.lower() in slugs]:
            self.notes.append(f"links to translated headings that may break: {len(links):,} (first: #{links[0]})")

    def written(self, words: str, inner: Where | None) -> str:
        before = self.content[max(0, inner[0] - 20) : inner[0]].rstrip()[-1:] if inner else ""
        if before == "[":  # the text of a picture
            return re.sub(r"(?<!\\)[\[\]]", r"\\\g<0>", words)
        if before in _QUOTES:
            return words.replace(before, _QUOTES[before])
        if inner:
            is_plain = _compiled(_VALUE, re.IGNORECASE).fullmatch(f" {words}", 1)
            return words if is_plain else "'" + words.replace("'", "’") + "'"
        words = _SPECIAL.sub(lambda found: "".join(f"\\{character}" for character in found[0]), words)
        return _ITEM.sub(r"\1\\\2", words.translate(self._escaped))

    def _add_shown(self, begin: int, end: int) -> None:
        """Add the titles of links and what attributes and options show, such as `alt`, in a piece of markup."""
        head = _compiled(_HEAD, re.IGNORECASE | re.MULTILINE).match(self.content, begin, end)
        export = self.content[begin:end] if self.content.startswith("export", begin) else ""
        if _compiled(_EXPRESSION).search(_compiled(_SHOWN, re.MULTILINE).sub("", head[0]) if head else export):
            self.left.append(Left("it is in an expression", line_of(self.content, (begin, end))))
        for found in _compiled(_SHOWN, re.MULTILINE).finditer(self.content, *head.span()) if head else []:
            begin = found.start("value")
            value = _compiled(_VALUE, re.IGNORECASE).fullmatch(
                self.content, begin, begin + len(found["value"].rstrip())
            )
            if value:
                name = value.lastgroup or 0
                self.add_inner([InlinePart("words", value.span(name), value[name])])
            elif has_words(found["value"]):
                self.left.append(Left("its value is not one plain or quoted line", line_of(self.content, found.span())))

    def _places(self, token: Token, begin: int, is_cell: bool) -> list[int]:
        """Return the position in the file of each character of a paragraph, and its end; nothing if it is not found."""
        places: list[int] = []
        for number, line in enumerate(token.content.split("\n"), (token.map or [0])[0]):
            first, last = self._lines[number]
            last = first + token.meta["end"] if token.meta else last
            bare = line.lstrip(" \t")  # of which the parser may have written other ones
            raw = bare.replace("|", r"\|") if is_cell else bare
            found = (self.content.find if is_cell else self.content.rfind)(raw, max(first, begin), last)
            if found < 0:
                return []
            marks = re.finditer(r"\\\||." if is_cell else ".", raw)
            places += [found] * (len(line) - len(bare)) + [found + mark.start() for mark in marks] + [found + len(raw)]
        return places

    def _add_texts(self, content: str, places: Sequence[int]) -> None:
        """Add the texts of a paragraph, which hard breaks and lines of tags divide."""
        parts, end, place, opened = list[InlinePart[Where]](), 0, 0, list[int]()
        tags = _compiled(rf"^[ \t]*{_COMPONENTS}$|(?<=>)$(?=\n[ \t]*<[A-Z])", re.MULTILINE).finditer(content)
        breaks = {place for found in tags for place in (found.start() - 1, found.end())}
        for piece in self._parser.inline.parse(content, self._parser, self._references, []):
            if piece.type == "text":
                place += len(piece.content)
                continue
            begin, after = piece.map or (place, place + len(piece.markup or "["))
            begin = place if piece.type == "link_close" else begin  # its map begins where the link does
            parts.append(InlinePart("words", (places[end], places[begin]), content[end:begin]))
            kind: Any = _KINDS.get(piece.type.rpartition("_")[2], "single")
            where, is_image = (places[begin], places[after]), piece.type == "image"
            if piece.type in ("link_open", "mark_open"):
                opened.append(after)
            elif is_image or (piece.type in ("link_close", "mark_close") and opened):
                label, label_end = (begin + 2, begin + 2 + len(piece.content)) if is_image else (opened.pop(), begin)
                is_name = content[label_end:after] == "][]" or (label_end + 1 == after and piece.type != "mark_close")
                named = (places[label], places[after if is_name else label_end]) if is_image else where
                if is_name:
                    name = re.sub(r"\s*\n[\s>]*", " ", self.content[places[label] : places[label_end]])
                    self.ends[named] = f"][{name}]"
                if is_image and re.search(r"[`<\[{$]", piece.content):
                    self.left.append(Left("it has markup and is the text of a picture", line_of(self.content, where)))
                elif is_image:
                    self.add_inner([InlinePart("words", named, piece.content)])
            self._add_shown(*where)
            if piece.type == "hardbreak" or begin in breaks:
                self.add(parts)
                parts = []
            elif kind == "close" and where not in self.ends and parts[last := _last(parts)].kind == "open":
                parts[last:] = [InlinePart("single", (parts[last].piece[0], where[1]))]  # without words between
            else:
                parts.append(InlinePart(kind, where, " " if piece.type == "softbreak" else piece.content))
            end = place = after
        self.add([*parts, InlinePart("words", (places[end], places[-1]), content[end:])])


def _last(parts: Sequence[InlinePart[Where]]) -> int:
    return next((n for n in range(len(parts) - 1, 0, -1) if parts[n].kind != "single" and not parts[n].is_blank), 0)


def _reason(token: Token) -> str:
    """Return why the words of a token are left, or nothing if they are translated or there are none."""
    if token.type != "inline" and token.level >= _MOST_NESTED - 1:
        return "it is nested too deeply"
    if token.type == "inline" and len(_MARK.findall(token.content)) > _MOST_MARKS:
        return "it has too much markup"
    if token.type == "html_block" and has_words(_NO_WORDS.sub(" ", token.content)):
        return "it is in a block of HTML"
    return token.info if token.type == "raw" else ""


def _parser(with_components: bool) -> MarkdownIt:
    md = MarkdownIt("commonmark", {"maxNesting": _MOST_NESTED}).enable(["table", "strikethrough"]).disable("inline")
    md.validateLink = lambda url: True  # whatever it names, it is no text
    md.use(deflist_plugin).use(footnote_plugin, inline=False, move_to_end=False)
    md.disable(["code", "html_block"] if with_components else [])
    lines = _compiled(rf"(?:{_LINES}{f'|{_COMPONENTS}' * with_components})[ \t]*$", re.MULTILINE)
    interrupted = ["paragraph", "reference", "blockquote", "list"]
    md.block.ruler.before("fence", "lines", partial(_lines, lines), {"alt": interrupted})
    md.block.ruler.before("paragraph", "terms", partial(_lines, _compiled(_TERM, re.MULTILINE)), {"alt": ["paragraph"]})
    kept, inline = _compiled(_KEPT + "|BRACES" * with_components, re.DOTALL | re.IGNORECASE), md.inline.ruler
    inline.before("escape", "kept", partial(_keep, kept))
    inline.after("image", "marks", partial(_keep, _compiled(_MARKS)))
    for name, rule in zip(inline.get_active_rules(), inline.getRules(""), strict=True):
        inline.at(name, partial(_locate, rule))
    md.inline.terminator_re = re.compile(f"{md.inline.terminator_re.pattern}|https?://|{_PARTS['FORMULA']}")
    return md


@cache
def _compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    for name, part in _PARTS.items():
        pattern = pattern.replace(name, part)
    return re.compile(pattern, re.VERBOSE | flags)


def _lines(pattern: re.Pattern[str], state: Any, line: int, end: int, silent: bool) -> bool:
    """Take out lines of a pattern, or the end of a directive. What is indented after an admonition is text again."""
    check_cancelled()
    begin, opened = state.bMarks[line] + state.tShift[line], state.env.setdefault("opened", [])
    closes = opened and re.compile(rf"{opened[-1]}+[ \t]*$", re.MULTILINE).match(state.src, begin)
    found = closes or pattern.match(state.src, begin, state.eMarks[end - 1])
    if found is None or state.is_code_block(line):
        return False
    groups = {name: words for name, words in found.groupdict().items() if words}
    title = next((name for name in groups if name[0] == "t"), None)
    last = body = line + 1 + found[0].count("\n")
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
        token.meta = {"end": found.end(title) - state.src.rfind("\n", 0, begin) - 1}
    if body < last:
        outer = state.blkIndent, state.lineMax, state.level
        state.blkIndent, state.lineMax, state.level = state.sCount[line] + 4, last, state.level + 1
        state.md.block.tokenize(state, body, last)
        state.blkIndent, state.lineMax, state.level = outer
    state.line = last
    return True


def _keep(pattern: re.Pattern[str], state: Any, silent: bool) -> bool:
    found = pattern.match(state.src, state.pos, state.posMax)
    if found is None or (silent and pattern is _compiled(_MARKS)):  # labels of links count brackets
        return False
    if not silent:
        kind = found.lastgroup or ""
        state.push(kind if kind.endswith(("_open", "_close")) else "kept", "", 0)
    state.pos = found.end()
    return True


def _locate(rule: Callable[[Any, bool], bool], state: Any, silent: bool) -> bool:
    """Run a rule, and give the last token that it pushes the beginning and end of what it read as its `map`."""
    begin, count, is_found = state.pos, len(state.tokens), rule(state, silent)
    if is_found and len(state.tokens) > count and state.tokens[-1].type != "text":
        state.tokens[-1].map = [begin, state.pos]
    return is_found


def read(content: bytes, path: Path, languages: tuple[str, str]) -> Markdown:
    """Read a text in Markdown, or in MDX if its name says so."""
    return Markdown(*decoded(content, path), with_components=without_packing(path).suffix.lower() == ".mdx")

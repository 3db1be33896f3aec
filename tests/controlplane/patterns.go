package main

// Regular expressions as Go reads them, to try another reader of Go's syntax with: a JSON array, one expression a line,
// as {"pattern":TEXT,"error":TEXT} or as {"pattern":TEXT,"matches":[TEXT…],"others":[TEXT…]}.
//
// After a list of known oddities come random rows of pieces that mean something in the syntax. The seed is fixed, so that
// two runs of the same Go write the same bytes. A running control plane is not needed:
//
//	/tmp/controlplane patterns --out host/devserver/src/schema/pattern/vectors.json

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
)

const (
	randomPatterns = 4000
	textsOfPattern = 6
)

var knownPatterns = []string{
	``, `a**`, `a{2}{3}`, `a*?`, `a*??`, `a+*`, `a|*`, `(*)`, `*`, `+a`, `?`, `a{1001}`, `a{2,1}`, `a{01}`, `a{1,01}`, `a{,2}`,
	`a{1`, `a{1,`, `a{1,2`, `{1}`, `a{0}`, `a{0}{2}`, `(a{0}){1000}`, `(a{100}){10}`, `(a{100}){11}`, `((a{10}){10}){10}`,
	`((a{10}){10}){11}`, `(a{1000}){0}`, `(a{2,}){500}`, `(a{2,}){501}`, `(a*){1000}`, `(a{0,}){1000}`,
	`(?x)a`, `(?R)`, `(?u)a`, `(?i)a`, `(?i:a)b`, `(?-i)a`, `(?i-)a`, `(?i-s:.)`, `(?s).`, `(?s-s).`, `(?m)^b$`, `(?U)a+`,
	`(?i`, `(?`, `(?:`, `(?P<n>a)`, `(?<n>a)`, `(?P<n`, `(?P<>a)`, `(?P<n->a)`, `(?P=n)`, `(?P`, `(?=a)`, `(?!a)`, `(?<=a)`,
	`(?<!a)`, `(?>a)`, `(?#a)`, `(?'n'a)`, `(?|a)`, `(`, `)`, `(a`, `a)`, `(a))`, `((a)`, `|`, `a||b`, `(|a)`, `()`, `()*`,
	`[`, `[]`, `[^]`, `[]a]`, `[^]a]`, `[a`, `[a-`, `[a-]`, `[-a]`, `[a-c-e]`, `[--/]`, `^[--/]$`, `[+--]`, `[+-\d]`, `[\d-z]`,
	`[a-\d]`, `[z-a]`, `[[a]`, `[[:]`, `[[:a]`, `[[:foo:]]`, `[[:alpha:]]`, `[[:^alpha:]]`, `[[:alpha:]-z]`, `[[:word:]]`,
	`[a&&b]`, `[a~~b]`, `[a||b]`, `[\]]`, `[\-]`, `[\b]`, `[\Q]`, `[\A]`, `[\pL_-]`, `[\p{Lu}-z]`, `[^\S]`, `[^\s\S]`, `[\x00-\x{10FFFF}]`,
	`\`, `a\`, `\d`, `\D`, `\w`, `\W`, `\s`, `\S`, `\v`, `\a`, `\f`, `\e`, `\h`, `\R`, `\X`, `\G`, `\Z`, `\z`, `\A`, `\C`, `\K`,
	`\b`, `\B`, `\bcat\b`, `\0`, `\01`, `\012`, `\0123`, `\1`, `\12`, `\18`, `\8`, `\377`, `\x`, `\x4`, `\x41`, `\x{`, `\x{}`,
	`\x{41`, `\x{41}`, `\x{110000}`, `\x{g}`, `\xg1`, `\u0041`, `\cA`, `\_`, `\/`, `\<`, `\ä`, `\Qa.b\E+`, `\Qa`, `\Q\E*`, `\E`,
	`\Q\\E`, `\pL`, `\pl`, `\p`, `\p{`, `\p{}`, `\p{L`, `\p{Greek}`, `\p{greek}`, `\p{^Greek}`, `\P{^Greek}`, `\P{Greek}`, `\pN`,
	`\p{Old_Italic}`, `\p{Grek}`, `\p{Script=Greek}`, `\p{Letter}`, `\p{uppercase letter}`, `\p{L&}`, `\p{LC}`, `\p{Any}`, `\P{Any}`,
	`\p{ASCII}`, `\p{Assigned}`, `\p{Cn}`, `\p{Cs}`, `\p{foo}`, `\pä`, `(?i)\pL`, `(?i)\p{Lu}`, `(?i)\P{Lu}`, `(?i)[^a]`, `(?i)k`,
	`(?i)s`, `(?i)\w`, `(?i)\W`, `(?i)[[:upper:]]`, `(?i)[^[:upper:]]`, `(?i)[A-Z]`, `(?i)ß`, `(?i)σ`, `(?i)ı`, `(?i)İ`, `^*`, `$*`,
	`^{2}`, `\b+`, `(?i)*`, `a(?i)*`, `a*(?i)*`, `a$b`, `(?m)a$^b`, `x{2}{`, `]`, `}`, `a}`, `{`, `{a}`, `^[\p{L}\p{N}_-]{1,63}$`,
	`^(a*)*$`, `^(a|a)*$`, `^(a?){20}a{20}$`, `(a|ab)(c|bcd)`, `^$`, `.`, `^.$`, `..`,
}

var patternPieces = []string{
	"a", "b", "k", "S", "ä", "α", "0", "_", "-", " ", "\n", ".", "^", "$", "|", "(", ")", "(", ")", "(?:", "(?i)", "(?i:", "(?s)",
	"(?m)", "(?-i)", "(?P<n>", "[", "]", "[^", "[a-", "-z]", "[ab]", "[^a]", "[[:alpha:]]", "[:digit:]", "*", "+", "?", "{2}",
	"{0,2}", "{1,}", "{3", "{", "}", ",", `\d`, `\w`, `\S`, `\b`, `\B`, `\pL`, `\p{Greek}`, `\P{Lu}`, `\x41`, `\x{3b1}`, `\101`,
	`\0`, `\.`, `\-`, `\]`, `\Q`, `\E`, `\\`, `\z`, `\A`,
}

var textPieces = []string{
	"a", "b", "A", "k", "K", "\u212a", "s", "S", "ſ", "ä", "Ä", "α", "Α", "σ", "ς", "0", "1", "_", "-", " ", "\n", ".", "^", "$",
	"[", "]", "{", "}", ":", "\\", "\x00", "😀", "ab", "aa",
}

type patternVector struct {
	Pattern string   `json:"pattern"`
	Error   string   `json:"error,omitempty"`
	Matches []string `json:"matches,omitempty"`
	Others  []string `json:"others,omitempty"`
}

// patterns writes the vectors to the file that the arguments name.
func patterns(args []string) error {
	flags := flag.NewFlagSet("patterns", flag.ContinueOnError)
	file := flags.String("out", "", "file for the expressions")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *file == "" || flags.NArg() > 0 {
		return fmt.Errorf("needs --out and no other arguments, got %q", flags.Args())
	}
	random := rand.New(rand.NewPCG(20, 26))
	row := func(pieces []string, most int) string {
		var text strings.Builder
		for range 1 + random.IntN(most) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		return text.String()
	}
	all := append([]string{}, knownPatterns...)
	seen := map[string]bool{}
	for len(all) < len(knownPatterns)+randomPatterns {
		if text := row(patternPieces, 7); !seen[text] {
			seen[text] = true
			all = append(all, text)
		}
	}
	var content bytes.Buffer
	for index, text := range all {
		vector := patternVector{Pattern: text}
		if expression, err := regexp.Compile(text); err != nil {
			vector.Error = err.Error()
		} else {
			for _, tried := range append([]string{"", text}, texts(row)...) {
				if expression.MatchString(tried) {
					vector.Matches = append(vector.Matches, tried)
				} else {
					vector.Others = append(vector.Others, tried)
				}
			}
		}
		line, err := json.Marshal(vector)
		if err != nil {
			return err
		}
		content.WriteString(map[bool]string{true: "[\n", false: ",\n"}[index == 0])
		content.Write(line)
	}
	content.WriteString("\n]\n")
	return os.WriteFile(*file, content.Bytes(), 0o644)
}

func texts(row func([]string, int) string) []string {
	made := make([]string, textsOfPattern)
	for index := range made {
		made[index] = row(textPieces, 4)
	}
	return made
}

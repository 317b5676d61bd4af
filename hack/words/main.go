// SPDX-License-Identifier: Apache-2.0

// Command words checks the language of comments and pages. A list in CONTRIBUTING.md has words and phrases that make
// texts hard to read, and what to write instead. The command prints each comment, and each sentence of a page, that
// contains one of them, and fails if their share exceeds a limit. The limits are not zero, because a comment may have to
// name an identifier with such a word.
//
// It reads the comments of Go files that are neither tests nor generated, and Markdown pages without their code.
package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// The largest shares of comments and of sentences of pages that may contain a listed word.
const (
	maxComments  = 0.02
	maxSentences = 0.03
)

// folders are the folders with Go files whose comments are checked.
var folders = []string{"cmd", "docs", "hack", "internal", "pkg"}

func main() {
	if err := run(".", os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// text is a comment or a sentence, and where it begins.
type text struct {
	file string
	line int
	body string
}

// run checks the comments and pages of the repository at root, and prints which of them contain listed words.
func run(root string, out io.Writer) error {
	guide, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		return err
	}
	listed, err := wordList(string(guide))
	if err != nil {
		return err
	}
	comments, err := allComments(root)
	if err != nil {
		return err
	}
	sentences, err := allSentences(root)
	if err != nil {
		return err
	}
	err = check("comments", comments, listed, maxComments, out)
	if more := check("sentences of pages", sentences, listed, maxSentences, out); err == nil {
		err = more
	}
	return err
}

// check prints the texts with listed words. It returns an error if their share exceeds the limit.
func check(kind string, texts []text, listed *regexp.Regexp, limit float64, out io.Writer) error {
	found := 0
	for _, t := range texts {
		if word := listed.FindString(t.body); word != "" {
			found++
			fmt.Fprintf(out, "%s:%d: %q\n", t.file, t.line, word)
		}
	}
	fmt.Fprintf(out, "%d of %d %s contain a word listed in CONTRIBUTING.md\n", found, len(texts), kind)
	if float64(found) > limit*float64(len(texts)) {
		return fmt.Errorf("%d of %d %s contain a word listed in CONTRIBUTING.md; at most %.0f%% may", found, len(texts), kind, 100*limit)
	}
	return nil
}

// wordRow matches a line of the list in CONTRIBUTING.md: words, separated by commas, then an arrow, then the replacement.
var wordRow = regexp.MustCompile(`(?m)^(.+?) -> .+$`)

// wordList returns an expression that matches the words in the list of section "Language" of CONTRIBUTING.md.
func wordList(guide string) (*regexp.Regexp, error) {
	_, section, _ := strings.Cut(guide, "\n## Language\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var words []string
	for _, row := range wordRow.FindAllStringSubmatch(fenced.FindString(section), -1) {
		for word := range strings.SplitSeq(row[1], ", ") {
			words = append(words, strings.ReplaceAll(regexp.QuoteMeta(word), " ", `\s+`))
		}
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("CONTRIBUTING.md has no list of words in a section %q", "Language")
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(words, "|") + `)\b`), nil
}

// allComments returns the comments of the Go files in folders.
func allComments(root string) (all []text, err error) {
	for _, folder := range folders {
		err = filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testdata" || strings.HasSuffix(filepath.ToSlash(path), "pkg/client")):
				return filepath.SkipDir
			case entry.IsDir(), !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"), strings.HasPrefix(entry.Name(), "zz_"):
				return nil
			}
			source, err := os.ReadFile(path)
			all = append(all, commentsOf(path, string(source))...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// directive matches the beginning of a comment that is for a tool, not for readers.
var directive = regexp.MustCompile(`^(?:SPDX|go:|\+|nolint)`)

// commentsOf returns the comments of a Go file. Lines of comments that follow each other are one comment.
func commentsOf(file, source string) (all []text) {
	open := false
	for i, line := range strings.Split(source, "\n") {
		if body, ok := strings.CutPrefix(strings.TrimSpace(line), "//"); ok && !directive.MatchString(strings.TrimSpace(body)) {
			if !open {
				all = append(all, text{file: file, line: i + 1})
			}
			open = true
			all[len(all)-1].body += body + "\n"
			continue
		}
		open = false
		if _, body, ok := strings.Cut(line, " // "); ok {
			all = append(all, text{file, i + 1, body})
		}
	}
	return all
}

// allSentences returns the sentences of the pages of the repository.
func allSentences(root string) (all []text, err error) {
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		source, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		all = append(all, sentencesOf(page, string(source))...)
	}
	return all, nil
}

// leastWords is the minimum number of words of a sentence. Shorter texts are names in tables, or short headings.
const leastWords = 4

var (
	fenced      = regexp.MustCompile("(?ms)^```.*?^```$")
	quoted      = regexp.MustCompile("`[^`]+`")
	sentenceEnd = regexp.MustCompile(`[.!?:;]\s|\n\n|\|`)
)

// sentencesOf returns the sentences of a page, without code in fences or backquotes. A table cell counts as a sentence.
func sentencesOf(file, page string) (all []text) {
	// Each line of code is replaced by an empty line, so that line numbers stay correct.
	page = fenced.ReplaceAllStringFunc(page, func(code string) string { return strings.Repeat("\n", strings.Count(code, "\n")) })
	page = quoted.ReplaceAllString(page, "``")
	line := 1
	for page != "" {
		end := len(page)
		if at := sentenceEnd.FindStringIndex(page); at != nil {
			end = at[1]
		}
		if len(strings.Fields(page[:end])) >= leastWords {
			all = append(all, text{file, line, page[:end]})
		}
		line += strings.Count(page[:end], "\n")
		page = page[end:]
	}
	return all
}

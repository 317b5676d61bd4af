// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"html"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// root is the folder of the repository.
const root = "../.."

// readPages returns the Markdown pages of the repository, keyed by path.
func readPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	add := func(name string) {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(data)
	}
	top, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range top {
		add(filepath.Base(name))
	}
	err = fs.WalkDir(os.DirFS(root), "docs", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".md" {
			add(name)
		}
		return err
	})
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages found: %v", len(pages), err)
	}
	return pages
}

var (
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	quoted   = regexp.MustCompile("`[^`\n]*`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchors returns the anchors that GitHub gives the headings of a page.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		text := linkText.ReplaceAllString(match[1], "$1")
		text = noAnchor.ReplaceAllString(strings.ToLower(text), "")
		all[strings.ReplaceAll(text, " ", "-")] = true
	}
	return all
}

// TestLinksOfPagesLeadSomewhere checks that links within the repository lead to existing files and headings.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	pages := readPages(t)
	for name, page := range pages {
		prose := quoted.ReplaceAllString(fenced.ReplaceAllString(page, ""), "")
		for _, match := range link.FindAllStringSubmatch(prose, -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: link %s: %v", name, match[1], err)
			}
			if to, ok := pages[file]; ok && anchor != "" && !anchors(to)[anchor] {
				t.Errorf("%s: link %s: %s has no such heading", name, match[1], file)
			}
		}
	}
}

// TestTheIndexHasEveryPage checks that docs/README.md links each page of docs.
func TestTheIndexHasEveryPage(t *testing.T) {
	pages := readPages(t)
	linked := map[string]bool{"docs/README.md": true}
	for _, match := range link.FindAllStringSubmatch(pages["docs/README.md"], -1) {
		linked[path.Join("docs", match[1])] = true
	}
	for name := range pages {
		if strings.HasPrefix(name, "docs/") && !linked[name] {
			t.Errorf("docs/README.md does not link %s", name)
		}
	}
}

// TestTheReadmeIsShort limits README.md to 120 lines. Details belong in docs.
func TestTheReadmeIsShort(t *testing.T) {
	if lines := strings.Count(readPages(t)["README.md"], "\n"); lines > 120 {
		t.Errorf("README.md has %d lines, want at most 120", lines)
	}
}

// TestPagesNameNoFolderOutsideOfTheRepository checks that paths with ../ on pages exist, because readers have only this
// repository.
func TestPagesNameNoFolderOutsideOfTheRepository(t *testing.T) {
	folders := regexp.MustCompile(`(?:\.\./)+[\w./-]+`)
	for name, page := range readPages(t) {
		for _, match := range folders.FindAllString(page, -1) {
			if _, err := os.Stat(filepath.Join(root, path.Dir(name), strings.TrimRight(match, "."))); err != nil {
				t.Errorf("%s names %s, which is not in the repository", name, match)
			}
		}
	}
}

// TestGeneratedPagesAreUpToDate checks that the generated pages and pictures equal the current output of their
// generators.
func TestGeneratedPagesAreUpToDate(t *testing.T) {
	for name, generate := range outputs() {
		want, err := generate()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not up to date (-want +got); run: make generate\n%s", name, diff)
		}
	}
}

// TestTextsOfPicturesFit checks that no text extends beyond its picture, by an estimate of the text's width.
func TestTextsOfPicturesFit(t *testing.T) {
	const letter = 8 // of 14 points, in a wide font
	texts := regexp.MustCompile(`<text class="([^"]*)" x="(\d+)" y="(\d+)">([^<]*)</text>`)
	for name, draw := range pictures {
		d := draw()
		found := texts.FindAllStringSubmatch(string(d.svg()), -1)
		if len(found) < 5 {
			t.Errorf("%s has %d texts, want more", name, len(found))
		}
		for _, match := range found {
			x, _ := strconv.Atoi(match[2])
			y, _ := strconv.Atoi(match[3])
			width := letter * len(html.UnescapeString(match[4]))
			if strings.Contains(match[1], "mid") {
				x -= width / 2
			}
			if x < 0 || x+width > d.width || y > d.height {
				t.Errorf("%s: text %q is outside of the picture", name, match[4])
			}
		}
		if err := xml.Unmarshal(d.svg(), new(struct{})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSentencesOfPagesAreShort checks that no sentence has more than 40 words. A table cell, a list item or a heading
// counts as a sentence.
func TestSentencesOfPagesAreShort(t *testing.T) {
	const most = 40
	parts := regexp.MustCompile(`\n\n|\n *(?:[-*]|\d+\.) |\n?\|`)
	ends := regexp.MustCompile(`[.!?][)*_"]*\s`)
	for name, page := range readPages(t) {
		for _, part := range parts.Split(fenced.ReplaceAllString(page, "\n\n"), -1) {
			for _, sentence := range ends.Split(part, -1) {
				if words := strings.Fields(sentence); len(words) > most {
					t.Errorf("%s has a sentence of %d words, want at most %d: %s ...", name, len(words), most, strings.Join(words[:10], " "))
				}
			}
		}
	}
}

// TestTheArchitecturePageIsShort limits docs/architecture.md to 950 words, about two pages. Details belong in
// docs/internals.
func TestTheArchitecturePageIsShort(t *testing.T) {
	if words := len(strings.Fields(readPages(t)["docs/architecture.md"])); words > 950 {
		t.Errorf("docs/architecture.md has %d words, want at most 950", words)
	}
}

// TestPagesOfTheInsideNameWhatExists checks that the folders and files named in docs/architecture.md and docs/internals
// exist.
func TestPagesOfTheInsideNameWhatExists(t *testing.T) {
	names := regexp.MustCompile(`^[a-z0-9-]+(?:/[a-z0-9_-]+)*(?:/[a-z0-9_-]+|\.go)$`)
	found := 0
	for name, page := range readPages(t) {
		if name != "docs/architecture.md" && !strings.HasPrefix(name, "docs/internals/") {
			continue
		}
		for named := range quotedNames(page, names) {
			found++
			folders := []string{"", "pkg", "pkg/scheduler", "pkg/scheduler/actions"}
			if !slices.ContainsFunc(folders, func(folder string) bool {
				_, err := os.Stat(filepath.Join(root, folder, named))
				return err == nil
			}) {
				t.Errorf("%s names %s, which exists neither in the repository's root nor below %s", name, named, strings.Join(folders[1:], ", "))
			}
		}
	}
	if found < 50 {
		t.Errorf("%d names of files and folders found, want more", found)
	}
}

// TestDefectsOfUpstreamHaveTests checks that each defect in docs/internals/upstream-defects.md has an end-to-end test:
// the title of a test in test/e2e contains the name of the defect in brackets.
func TestDefectsOfUpstreamHaveTests(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "test/e2e/*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(text)
	}
	rows := regexp.MustCompile(`(?m)^\| ([a-z-]*[a-z][a-z-]*) \|`).FindAllStringSubmatch(readPages(t)["docs/internals/upstream-defects.md"], -1)
	if len(rows) < 10 {
		t.Fatalf("%d defects found, want more", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(tests.String(), "["+row[1]+"]") {
			t.Errorf("no title of a test in test/e2e has [%s]", row[1])
		}
	}
}

// TestTheArchitecturePageNamesEachPackage checks that docs/architecture.md names each package below pkg/scheduler.
func TestTheArchitecturePageNamesEachPackage(t *testing.T) {
	page := readPages(t)["docs/architecture.md"]
	packages, err := os.ReadDir(filepath.Join(root, "pkg/scheduler"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range packages {
		if entry.IsDir() && !strings.Contains(page, "`"+entry.Name()+"`") {
			t.Errorf("docs/architecture.md does not name pkg/scheduler/%s", entry.Name())
		}
	}
}

// TestTheAllocatePageNamesEachPackage checks that the list in docs/allocate.md has exactly the packages of the action.
func TestTheAllocatePageNamesEachPackage(t *testing.T) {
	_, list, _ := strings.Cut(readPages(t)["docs/allocate.md"], "Its packages build on each other:\n")
	list, _, _ = strings.Cut(list, "\n## ")
	named := slices.Sorted(maps.Keys(quotedNames(list, regexp.MustCompile("."))))
	entries, err := os.ReadDir(filepath.Join(root, "pkg/scheduler/actions/allocate"))
	if err != nil {
		t.Fatal(err)
	}
	var packages []string
	for _, entry := range entries {
		if entry.IsDir() {
			packages = append(packages, entry.Name())
		}
	}
	if diff := cmp.Diff(packages, named); diff != "" {
		t.Errorf("packages that docs/allocate.md names (-want +got):\n%s", diff)
	}
}

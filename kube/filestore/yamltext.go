package filestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"kaas/meta"
)

// A file is split into segments, one per document, each beginning with its own
// "---" line if it has one. Joined they are the file again, byte by byte.
func splitDocuments(text string) []string {
	var segments []string
	start := 0
	for at := 0; at < len(text); {
		end := strings.IndexByte(text[at:], '\n')
		if end < 0 {
			end = len(text)
		} else {
			end += at + 1
		}
		if at > start && isSeparator(text[at:end]) {
			segments = append(segments, text[start:at])
			start = at
		}
		at = end
	}
	return append(segments, text[start:])
}

func isSeparator(line string) bool {
	rest, ok := strings.CutPrefix(line, "---")
	return ok && (rest == "" || strings.ContainsRune(" \t\r\n", rune(rest[0])))
}

// blockChange is what happens to one top-level block of a document.
type blockChange struct {
	key string
	// replace is the block's new value as JSON, in order; else merge is a merge
	// patch for it.
	replace json.RawMessage
	merge   map[string]any
}

// patchDocument changes top-level blocks of a document and keeps all other text
// as it is. Inside a merged block comments and order are kept, spacing may
// change. The result is parsed and compared with what it must mean; a document
// too odd for the textual way is written anew, and an error says that neither
// way reached the meaning.
func patchDocument(text string, changes []blockChange) (string, error) {
	want, err := wantedBlocks(text, changes)
	if err != nil {
		return "", err
	}
	means := func(patched string) bool {
		raw, err := manifestJSON(patched)
		if err != nil {
			return false
		}
		got, err := blocksOf(raw)
		return err == nil && maps.EqualFunc(got, want, func(a, b json.RawMessage) bool { return string(a) == string(b) })
	}
	patched, err := patchBlocks(text, changes)
	if err == nil && means(patched) {
		return patched, nil
	}
	patched, rewriteErr := rewriteDocument(text, changes)
	if rewriteErr != nil {
		return "", errors.Join(err, rewriteErr)
	}
	if means(patched) {
		return patched, nil
	}
	return "", fmt.Errorf("the file's YAML can't be changed by machine (anchors or merge keys?); edit it by hand: %w", meta.ErrInvalid)
}

// wantedBlocks is what the document must mean when it is changed, as text: trees of a
// large one, several at a time, would take a hundred times its size.
func wantedBlocks(text string, changes []blockChange) (map[string]json.RawMessage, error) {
	tree, err := manifestTree(text)
	if err != nil {
		return nil, err
	}
	for _, change := range changes {
		if change.replace != nil {
			var value any
			if err := decodeJSON(change.replace, &value); err != nil {
				return nil, err
			}
			tree[change.key] = value
			continue
		}
		tree[change.key] = mergePatch(tree[change.key], mapOf(change.merge))
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	return blocksOf(raw)
}

// blocksOf takes a document with sorted keys apart. Absent and empty mappings of the
// top level mean the same.
func blocksOf(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var blocks map[string]json.RawMessage
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return nil, err
	}
	maps.DeleteFunc(blocks, func(_ string, value json.RawMessage) bool { return string(value) == "null" || string(value) == "{}" })
	return blocks, nil
}

func mapOf(patch map[string]any) any {
	if patch == nil {
		return map[string]any{}
	}
	return patch
}

func patchBlocks(text string, changes []blockChange) (string, error) {
	for _, change := range changes {
		root, err := parseRoot(text)
		if err != nil {
			return "", err
		}
		if root.Style&yaml.FlowStyle != 0 {
			text, err = patchFlow(text, root, change)
		} else {
			text, err = patchBlock(text, root, change)
		}
		if err != nil {
			return "", err
		}
	}
	return text, nil
}

func parseRoot(text string) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, fmt.Errorf("YAML: %w", err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("a resource is a mapping")
	}
	return document.Content[0], nil
}

// findPair returns the index of the key in a mapping's Content, or -1.
func findPair(mapping *yaml.Node, key string) int {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return i
		}
	}
	return -1
}

func changedValue(old *yaml.Node, change blockChange) (*yaml.Node, error) {
	if change.replace != nil {
		return nodeFromJSON(change.replace)
	}
	if old == nil || old.Kind != yaml.MappingNode {
		if old != nil && old.Kind == yaml.AliasNode {
			return nil, errors.New("the block is an alias")
		}
		old = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	return old, mergeNode(old, change.merge)
}

// mergeNode applies a merge patch to a mapping in place.
func mergeNode(mapping *yaml.Node, patch map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		value, at := patch[key], findPair(mapping, key)
		if value == nil {
			if at >= 0 {
				mapping.Content = slices.Delete(mapping.Content, at, at+2)
			}
			continue
		}
		inner, isTree := value.(map[string]any)
		if isTree && at >= 0 && mapping.Content[at+1].Kind == yaml.MappingNode {
			if err := mergeNode(mapping.Content[at+1], inner); err != nil {
				return err
			}
			continue
		}
		if items, isList := value.([]any); isList && at >= 0 && mapping.Content[at+1].Kind == yaml.SequenceNode {
			if err := mergeList(mapping.Content[at+1], items); err != nil {
				return err
			}
			continue
		}
		raw, err := json.Marshal(mergePatch(nil, value))
		if err != nil {
			return err
		}
		node, err := nodeFromJSON(raw)
		if err != nil {
			return err
		}
		if at < 0 {
			mapping.Content = append(mapping.Content, scalarNode(key), node)
			continue
		}
		old := mapping.Content[at+1]
		node.HeadComment, node.LineComment, node.FootComment = old.HeadComment, old.LineComment, old.FootComment
		mapping.Content[at+1] = node
	}
	if len(mapping.Content) == 0 {
		mapping.Style |= yaml.FlowStyle
	} else if mapping.Line == 0 {
		mapping.Style &^= yaml.FlowStyle
	}
	return nil
}

// patchBlock replaces the lines of one top-level block, or adds it at the end.
func patchBlock(text string, root *yaml.Node, change blockChange) (string, error) {
	at := findPair(root, change.key)
	var old *yaml.Node
	keyNode := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: change.key}
	if at >= 0 {
		old = root.Content[at+1]
		// Comments before and after stay in the text; only the one on the
		// key's own line lies in the range that is replaced.
		keyNode.LineComment = root.Content[at].LineComment
	}
	indent := blockIndent(root, old)
	value, err := changedValue(old, change)
	if err != nil {
		return "", err
	}
	block, err := encodeNode(&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{keyNode, value}}, indent)
	if err != nil {
		return "", err
	}
	margin := 0
	if len(root.Content) > 0 {
		margin = root.Content[0].Column - 1
	}
	newline := "\n"
	if strings.Contains(text, "\r\n") {
		newline = "\r\n"
	}
	block = indentLines(block, margin, newline)
	lines := strings.SplitAfter(text, "\n")
	var start, end int
	if at >= 0 {
		end = len(lines)
		start = root.Content[at].Line - 1
		if isSeparator(lines[start]) {
			return "", errors.New("the block begins on the separator's line")
		}
		if at+2 < len(root.Content) {
			end = root.Content[at+2].Line - 1
		}
		end = trimBlock(lines, start, end, margin)
	} else {
		start = endOfContent(lines)
		end = start
	}
	head, tail := strings.Join(lines[:start], ""), strings.Join(lines[end:], "")
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += newline
	}
	return head + block + tail, nil
}

// blockIndent finds the indentation that the document uses.
func blockIndent(root, block *yaml.Node) int {
	candidates := []*yaml.Node{block}
	for i := 1; i < len(root.Content); i += 2 {
		candidates = append(candidates, root.Content[i])
	}
	for _, node := range candidates {
		if node != nil && node.Kind == yaml.MappingNode && node.Style&yaml.FlowStyle == 0 && len(node.Content) > 0 {
			if width := node.Content[0].Column - root.Content[0].Column; width >= 2 && width <= 8 {
				return width
			}
		}
	}
	return 2
}

func indentLines(block string, margin int, newline string) string {
	var out strings.Builder
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" {
			out.WriteString(strings.Repeat(" ", margin))
		}
		out.WriteString(line + newline)
	}
	return out.String()
}

// trimBlock takes blank lines, and comments that stand no deeper than the key,
// off a block's end: they belong to what follows.
func trimBlock(lines []string, start, end, margin int) int {
	for end > start+1 {
		line := strings.TrimRight(lines[end-1], " \t\r\n")
		depth := len(line) - len(strings.TrimLeft(line, " \t"))
		if line == "" || line == "..." || strings.HasPrefix(line[depth:], "#") && depth <= margin {
			end--
			continue
		}
		break
	}
	return end
}

// endOfContent is the index of the line before which a new block goes.
func endOfContent(lines []string) int {
	end := len(lines)
	for end > 0 {
		line := strings.TrimRight(lines[end-1], " \t\r\n")
		if line == "" || line == "..." {
			end--
			continue
		}
		break
	}
	return end
}

// patchFlow changes a document whose root is in flow style, which JSON is: the
// value of the key is replaced by JSON text, or added as the last one.
func patchFlow(text string, root *yaml.Node, change blockChange) (string, error) {
	at := findPair(root, change.key)
	var old *yaml.Node
	if at >= 0 {
		old = root.Content[at+1]
	}
	raw := []byte(change.replace)
	if raw == nil {
		tree := any(map[string]any{})
		if old != nil {
			if err := old.Decode(&tree); err != nil {
				return "", err
			}
		}
		var err error
		if raw, err = json.Marshal(mergePatch(tree, mapOf(change.merge))); err != nil {
			return "", err
		}
	}
	if old != nil {
		start := offsetOf(text, old)
		end := flowEnd(text, start)
		if start < 0 || end < 0 {
			return "", errors.New("the value's place in the text was not found")
		}
		return text[:start] + string(raw) + text[end:], nil
	}
	start := offsetOf(text, root)
	end := flowEnd(text, start)
	if start < 0 || end < 1 || text[end-1] != '}' {
		return "", errors.New("the mapping's end was not found")
	}
	before := strings.TrimRight(text[start:end-1], " \t\r\n")
	comma := ","
	if strings.HasSuffix(before, ",") || before == "{" {
		comma = ""
	}
	cut := start + len(before)
	return text[:cut] + comma + " " + `"` + change.key + `": ` + string(raw) + text[cut:], nil
}

// offsetOf is the byte offset of a node: Line and Column count from 1, Column in
// characters.
func offsetOf(text string, node *yaml.Node) int {
	offset := 0
	for range node.Line - 1 {
		next := strings.IndexByte(text[offset:], '\n')
		if next < 0 {
			return -1
		}
		offset += next + 1
	}
	for range node.Column - 1 {
		if offset >= len(text) {
			return -1
		}
		_, width := utf8.DecodeRuneInString(text[offset:])
		offset += width
	}
	return offset
}

// flowEnd is the offset behind the flow value that begins at start, or -1.
func flowEnd(text string, start int) int {
	if start < 0 || start >= len(text) {
		return -1
	}
	depth := 0
	for i := start; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			if i = quoteEnd(text, i); i < 0 {
				return -1
			}
			if depth == 0 {
				return i + 1
			}
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth == 0 {
				return i // the end of a plain scalar before its mapping's
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case c == ',' && depth == 0:
			return i
		case c == '#' && i > 0 && strings.ContainsRune(" \t\n", rune(text[i-1])):
			next := strings.IndexByte(text[i:], '\n')
			if next < 0 {
				return -1
			}
			i += next
		}
	}
	return -1
}

func quoteEnd(text string, start int) int {
	quote := text[start]
	for i := start + 1; i < len(text); i++ {
		switch {
		case quote == '"' && text[i] == '\\':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i
		}
	}
	return -1
}

// rewriteDocument is the way out for documents that can't be changed by lines:
// all of it is encoded anew, with its comments.
func rewriteDocument(text string, changes []blockChange) (string, error) {
	root, err := parseRoot(text)
	if err != nil {
		return "", err
	}
	for _, change := range changes {
		at := findPair(root, change.key)
		var old *yaml.Node
		if at >= 0 {
			old = root.Content[at+1]
		}
		value, err := changedValue(old, change)
		if err != nil {
			return "", err
		}
		if at >= 0 {
			root.Content[at+1] = value
			continue
		}
		root.Content = append(root.Content, scalarNode(change.key), value)
	}
	body, err := encodeNode(root, 2)
	if err != nil {
		return "", err
	}
	if isSeparator(text) {
		body = "---\n" + body
	}
	return body, nil
}

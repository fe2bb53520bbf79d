package filestore

import (
	"encoding/json"
	"slices"

	"go.yaml.in/yaml/v3"
)

// mergeList gives a list its new items. An item that was there keeps its text, with
// comments, style and the order of keys; one of which a single field has changed keeps
// that of the others.
func mergeList(list *yaml.Node, items []any) error {
	before := make([]listItem, len(list.Content))
	byText := make(map[string][]int, len(list.Content))
	for i, node := range list.Content {
		before[i].node = node
		var value any
		if node.Decode(&value) != nil {
			continue // it is written anew
		}
		if raw, err := json.Marshal(value); err == nil {
			before[i].raw = raw
			byText[string(raw)] = append(byText[string(raw)], i)
		}
	}
	if len(list.Content) == 0 {
		list.Style &^= yaml.FlowStyle
	}
	list.Content = make([]*yaml.Node, len(items))
	for i, item := range items {
		raw, err := json.Marshal(item)
		if err != nil {
			return err
		}
		if same := byText[string(raw)]; len(same) > 0 {
			list.Content[i], before[same[0]].kept = before[same[0]].node, true
			byText[string(raw)] = same[1:]
		}
	}
	left := slices.DeleteFunc(before, func(b listItem) bool { return b.kept })
	for i, item := range items {
		if list.Content[i] != nil {
			continue
		}
		var err error
		if list.Content[i], err = changedItem(&left, item); err != nil {
			return err
		}
	}
	if len(items) == 0 {
		list.Style |= yaml.FlowStyle
	}
	return nil
}

type listItem struct {
	node *yaml.Node
	raw  []byte         // as JSON; nil: it can't be
	tree map[string]any // of raw, once it was compared
	kept bool
}

// mostCompared bounds what each changed item is compared with to find what it was before.
const mostCompared = 100

// changedItem is the node of an item that was not there as it is now: the first of
// those left that differs in one field, changed, or a new one.
func changedItem(left *[]listItem, item any) (*yaml.Node, error) {
	if after, ok := item.(map[string]any); ok {
		for i := range (*left)[:min(len(*left), mostCompared)] {
			candidate := &(*left)[i]
			if candidate.node.Kind != yaml.MappingNode || candidate.tree == nil && decodeJSON(candidate.raw, &candidate.tree) != nil {
				continue
			}
			if patch := diffPatch(candidate.tree, after); len(patch) == 1 {
				node := candidate.node
				*left = slices.Delete(*left, i, i+1)
				return node, mergeNode(node, patch)
			}
		}
	}
	raw, err := json.Marshal(item)
	if err != nil {
		return nil, err
	}
	return nodeFromJSON(raw)
}

package config

import "strings"

// suggestion is the key that an unknown one was most likely meant to be, or "".
func suggestion(name string) string {
	if rest, ok := strings.CutPrefix(name, "cfg."); ok && BrokerKey(rest) != nil {
		return rest // KAFKA_CFG_ is how another image of Kafka spells its variables
	}
	best, distance := "", 3 // two slips at most
	for _, k := range BrokerKeys() {
		if d := editDistance(name, k.Name, distance); d < distance {
			best, distance = k.Name, d
		}
	}
	return best
}

// editDistance is how many characters have to be put in, taken out or replaced, or
// limit if it is no less.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal, least := row[0], i+1
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
			least = min(least, row[j+1])
		}
		if least >= limit {
			return limit
		}
	}
	return min(row[len(b)], limit)
}

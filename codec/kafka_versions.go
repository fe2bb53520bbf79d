package codec

// VersionRange is a range of versions of one API key, both ends included.
type VersionRange struct{ Min, Max int16 }

// KafkaVersions is what Apache Kafka 4.4.0 (one node, broker and controller in one
// process, freshly formatted, no setting about versions) advertises on its client
// listener in ApiVersions v4, by API key. It is the ceiling: kaas serves no version
// above (NewRegistry refuses it), and for the keys it serves it reaches the highest
// unless the API's Note says why not. Keys from 52 on that are missing belong to
// controllers; 71 and 72 appear only with a telemetry plugin.
//
// kmsg 1.15.1 encodes all of these versions.
var KafkaVersions = map[int16]VersionRange{
	0: {0, 13}, 1: {4, 18}, 2: {1, 11}, 3: {0, 13}, 8: {2, 10}, 9: {1, 10}, 10: {0, 6}, 11: {0, 9},
	12: {0, 4}, 13: {0, 5}, 14: {0, 5}, 15: {0, 6}, 16: {0, 5}, 17: {0, 1}, 18: {0, 5}, 19: {2, 7},
	20: {1, 6}, 21: {0, 2}, 22: {0, 5}, 23: {2, 4}, 24: {0, 5}, 25: {0, 4}, 26: {0, 5}, 27: {1, 2},
	28: {0, 6}, 29: {1, 3}, 30: {1, 3}, 31: {1, 3}, 32: {1, 4}, 33: {0, 2}, 34: {1, 2}, 35: {1, 5},
	36: {0, 2}, 37: {0, 3}, 38: {1, 3}, 39: {1, 2}, 40: {1, 2}, 41: {1, 3}, 42: {0, 3}, 43: {0, 2},
	44: {0, 1}, 45: {0, 1}, 46: {0, 0}, 47: {0, 0}, 48: {0, 1}, 49: {0, 1}, 50: {0, 0}, 51: {0, 0},
	55: {0, 2}, 57: {0, 2}, 60: {0, 2}, 61: {0, 0}, 64: {0, 0}, 65: {0, 0}, 66: {0, 2}, 68: {0, 1},
	69: {0, 1}, 74: {0, 1}, 75: {0, 0}, 76: {1, 1}, 77: {1, 1}, 78: {1, 2}, 79: {1, 2}, 80: {0, 1},
	81: {0, 0}, 83: {0, 0}, 84: {0, 0}, 85: {0, 1}, 86: {0, 0}, 87: {0, 1}, 88: {0, 1}, 89: {0, 1},
	90: {0, 1}, 91: {0, 0}, 92: {0, 0}, 93: {0, 0}, 94: {0, 0},
}

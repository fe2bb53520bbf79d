// Package validate says whether records may be appended, as far as that can be seen without a partition's state: magic, CRC,
// sizes, counts, timestamps, keys. It matches UnifiedLog.analyzeAndValidateRecords and LogValidator, except that records
// stay opaque where the batch header tells enough.
//
// It is not the place of producer state, epochs or offsets, and apart from the append time it changes nothing.
//
// It owns no goroutines and has no locks. Nothing allocates unless records are refused or keys are looked at.
package validate

package logstore

import "encoding/binary"

func be32(b []byte) int32       { return int32(binary.BigEndian.Uint32(b)) }
func be64(b []byte) int64       { return int64(binary.BigEndian.Uint64(b)) }
func put32(b []byte, v int32)   { binary.BigEndian.PutUint32(b, uint32(v)) }
func relative(o, b int64) int32 { return int32(o - b) }

package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	codeUnknownServerError     = kerr.UnknownServerError.Code
	codeOffsetMetadataTooLarge = kerr.OffsetMetadataTooLarge.Code
	codeIllegalGeneration      = kerr.IllegalGeneration.Code
	codeInconsistentProtocol   = kerr.InconsistentGroupProtocol.Code
	codeInvalidGroupID         = kerr.InvalidGroupID.Code
	codeUnknownMemberID        = kerr.UnknownMemberID.Code
	codeInvalidSessionTimeout  = kerr.InvalidSessionTimeout.Code
	codeRebalanceInProgress    = kerr.RebalanceInProgress.Code
	codeInvalidCommitSize      = kerr.InvalidCommitOffsetSize.Code
	codeNonEmptyGroup          = kerr.NonEmptyGroup.Code
	codeGroupIDNotFound        = kerr.GroupIDNotFound.Code
	codeMemberIDRequired       = kerr.MemberIDRequired.Code
	codeGroupMaxSizeReached    = kerr.GroupMaxSizeReached.Code
	codeFencedInstanceID       = kerr.FencedInstanceID.Code
	codeGroupSubscribed        = kerr.GroupSubscribedToTopic.Code
	codeUnstableOffset         = kerr.UnstableOffsetCommit.Code

	codeUnsupportedVersion       = kerr.UnsupportedVersion.Code
	codeInvalidRequest           = kerr.InvalidRequest.Code
	codeFencedMemberEpoch        = kerr.FencedMemberEpoch.Code
	codeUnreleasedInstanceID     = kerr.UnreleasedInstanceID.Code
	codeUnsupportedAssignor      = kerr.UnsupportedAssignor.Code
	codeStaleMemberEpoch         = kerr.StaleMemberEpoch.Code
	codeInvalidRegularExpression = kerr.InvalidRegularExpression.Code
)

// JoinError is an answer without a generation.
func JoinError(code int16, memberID string) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	r.ErrorCode, r.Generation, r.MemberID = code, -1, memberID
	return r
}

// SyncError has an empty assignment, never a null one.
func SyncError(code int16) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	r.ErrorCode, r.MemberAssignment = code, []byte{}
	return r
}

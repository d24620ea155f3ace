//! What librdkafka can do and `rdkafka` does not pass on. The only `unsafe` of Kafka's part.

#![expect(unsafe_code, reason = "librdkafka's C interface: each block says why it is sound")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::BorrowedMessage;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Offset, TopicPartitionList};

use super::{Partition, Position};

/// What is kept in Kafka beside the committed offsets of partitions.
pub(super) type Marks = BTreeMap<Partition, Arc<str>>;

/// The headers in wire order. `rdkafka`'s own iterator panics on a name that is not UTF-8,
/// which any producer can send.
pub(super) fn headers(message: &BorrowedMessage<'_>) -> Vec<(String, Option<Vec<u8>>)> {
    let mut list = ptr::null_mut();
    // SAFETY: the message is alive; librdkafka writes a list it keeps owning, or reports an error.
    let found = unsafe { sys::rd_kafka_message_headers(message.ptr(), &mut list) };
    if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR || list.is_null() {
        return Vec::new();
    }
    // SAFETY: the list lives as long as the message.
    let count = unsafe { sys::rd_kafka_header_cnt(list) };
    (0..count).filter_map(|index| header(list, index)).collect()
}

fn header(list: *const sys::rd_kafka_headers_t, index: usize) -> Option<(String, Option<Vec<u8>>)> {
    let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
    // SAFETY: the list is alive, and the three places are ours.
    let found = unsafe { sys::rd_kafka_header_get_all(list, index, &mut name, &mut value, &mut size) };
    if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        return None;
    }
    // SAFETY: on success the name ends with a NUL, and a value that is not null has `size` bytes.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    // SAFETY: librdkafka keeps `size` bytes at `value` until the list goes.
    let value = (!value.is_null()).then(|| unsafe { std::slice::from_raw_parts(value.cast::<u8>(), size) }.to_vec());
    Some((name, value))
}

/// Whether a record that failed surely is not in the log: it was never handed to a broker.
pub(super) fn never_sent(message: &BorrowedMessage<'_>) -> bool {
    // SAFETY: the message of a delivery report is alive while its event is.
    let status = unsafe { sys::rd_kafka_message_status(message.ptr()) };
    status == sys::rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED
}

/// Whether any broker answers within `timeout`; of topics nothing is asked. Blocks.
pub(super) fn is_answered(client: *mut sys::rd_kafka_t, timeout: Duration) -> bool {
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let mut metadata = ptr::null();
    // SAFETY: the caller's client is alive; librdkafka writes what is then ours, or reports an error.
    let error = unsafe { sys::rd_kafka_metadata(client, 0, ptr::null_mut(), &mut metadata, millis) };
    if is_error(error) || metadata.is_null() {
        return false;
    }
    // SAFETY: it is ours, and not used afterwards.
    unsafe { sys::rd_kafka_metadata_destroy(metadata) };
    true
}

/// What stands beside the offset of each element. `rdkafka`'s own accessor panics on what is not UTF-8, which any
/// client can leave there.
pub(super) fn metadata(list: &TopicPartitionList) -> Vec<String> {
    // SAFETY: the list is alive, and `cnt` elements begin at `elems`.
    let elements = unsafe { elements(list.ptr()) };
    let text = |element: &sys::rd_kafka_topic_partition_t| {
        if element.metadata.is_null() {
            return String::new();
        }
        // SAFETY: librdkafka keeps as many bytes there as it says.
        let bytes = unsafe { std::slice::from_raw_parts(element.metadata.cast::<u8>(), element.metadata_size) };
        String::from_utf8_lossy(bytes).into_owned()
    };
    elements.iter().map(text).collect()
}

/// # Safety
/// The list is alive for `'a`.
unsafe fn elements<'a>(list: *const sys::rd_kafka_topic_partition_list_t) -> &'a [sys::rd_kafka_topic_partition_t] {
    // SAFETY: `cnt` elements begin at `elems`.
    unsafe {
        let count = usize::try_from((*list).cnt).unwrap_or(0);
        if count == 0 { &[][..] } else { std::slice::from_raw_parts((*list).elems, count) }
    }
}

/// The broker that answers questions about topics, as far as it is known; the in-process cluster names one
/// that is not there, 0. Does not block.
pub(super) fn controller(client: *mut sys::rd_kafka_t) -> i32 {
    // SAFETY: the caller's client is alive; without time it only reads what it knows.
    unsafe { sys::rd_kafka_controllerid(client, 0) }
}

/// What is known of a topic's id: `None` where the brokers give none, an error where they do not answer.
pub(super) type TopicId = Result<Option<String>, RDKafkaErrorCode>;

/// The ids of topics, as the brokers, or this one, say them within `timeout`; a topic that is not among them was
/// not answered for. Blocks.
pub(super) fn topic_ids(
    client: *mut sys::rd_kafka_t,
    broker: Option<i32>,
    topics: &[&str],
    timeout: Duration,
) -> BTreeMap<String, TopicId> {
    let names: Vec<CString> = topics.iter().filter_map(|topic| CString::new(*topic).ok()).collect();
    let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: the caller's client is alive; librdkafka copies the names and the options, and everything that is
    // made here is destroyed here, the answer before the queue.
    let answer = unsafe {
        let wanted = sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
        let operation = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let options = sys::rd_kafka_AdminOptions_new(client, operation);
        sys::rd_kafka_AdminOptions_set_request_timeout(options, millis, ptr::null_mut(), 0);
        if let Some(broker) = broker {
            sys::rd_kafka_AdminOptions_set_broker(options, broker, ptr::null_mut(), 0);
        }
        let queue = sys::rd_kafka_queue_new(client);
        sys::rd_kafka_DescribeTopics(client, wanted, options, queue);
        sys::rd_kafka_AdminOptions_destroy(options);
        sys::rd_kafka_TopicCollection_destroy(wanted);
        let event = sys::rd_kafka_queue_poll(queue, millis);
        let mut answer = Err(RDKafkaErrorCode::OperationTimedOut);
        if !event.is_null() {
            answer = described(event);
            sys::rd_kafka_event_destroy(event);
        }
        sys::rd_kafka_queue_destroy(queue);
        answer
    };
    let all = |id: TopicId| topics.iter().map(|topic| ((*topic).to_owned(), id.clone())).collect();
    match answer {
        Ok(ids) => ids,
        // Brokers that cannot be asked give none.
        Err(RDKafkaErrorCode::UnsupportedFeature | RDKafkaErrorCode::UnsupportedVersion) => all(Ok(None)),
        Err(code) => all(Err(code)),
    }
}

/// # Safety
/// `event` is an event that has not been destroyed.
unsafe fn described(event: *mut sys::rd_kafka_event_t) -> Result<BTreeMap<String, TopicId>, RDKafkaErrorCode> {
    // SAFETY: by the contract above; everything that is read belongs to the event.
    unsafe {
        let error = sys::rd_kafka_event_error(event);
        if is_error(error) {
            return Err(error.into());
        }
        let result = sys::rd_kafka_event_DescribeTopics_result(event);
        if result.is_null() {
            return Err(RDKafkaErrorCode::BadMessage);
        }
        let mut count = 0;
        let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        let topics = if topics.is_null() || count == 0 { &[][..] } else { std::slice::from_raw_parts(topics, count) };
        Ok(topics.iter().map(|topic| topic_id(*topic)).collect())
    }
}

/// The name and the id of a topic; older brokers give none.
///
/// # Safety
/// The description is alive.
unsafe fn topic_id(topic: *const sys::rd_kafka_TopicDescription_t) -> (String, TopicId) {
    // SAFETY: by the contract above; both texts end with a NUL and belong to the description.
    unsafe {
        let text = |text: *const c_char| CStr::from_ptr(text).to_string_lossy().into_owned();
        let name = text(sys::rd_kafka_TopicDescription_name(topic));
        let error = sys::rd_kafka_error_code(sys::rd_kafka_TopicDescription_error(topic));
        if is_error(error) {
            return (name, Err(error.into()));
        }
        let uuid = sys::rd_kafka_TopicDescription_topic_id(topic);
        if uuid.is_null()
            || (sys::rd_kafka_Uuid_most_significant_bits(uuid), sys::rd_kafka_Uuid_least_significant_bits(uuid))
                == (0, 0)
        {
            return (name, Ok(None));
        }
        (name, Ok(Some(text(sys::rd_kafka_Uuid_base64str(uuid)))))
    }
}

/// An offset commit on its way, with a queue of its own for the answer: it can be waited for
/// with a bound, where librdkafka's own synchronous commit waits without one.
pub(super) struct Commit {
    queue: *mut sys::rd_kafka_queue_t,
    pub(super) positions: Vec<Position>,
}

impl Commit {
    /// Sends the commit, each position with its mark. The consumer must outlive it.
    pub(super) fn start<C: ConsumerContext>(
        consumer: &BaseConsumer<C>,
        positions: Vec<Position>,
        marks: &Marks,
    ) -> Result<Self, RDKafkaErrorCode> {
        let mut list = TopicPartitionList::with_capacity(positions.len());
        for Position { partition, offset } in &positions {
            let mut element = list.add_partition(&partition.topic, partition.number);
            element.set_offset(Offset::Offset(*offset)).map_err(|_| RDKafkaErrorCode::InvalidArgument)?;
            if let Some(mark) = marks.get(partition).filter(|mark| !mark.is_empty()) {
                element.set_metadata(&**mark);
            }
        }
        let client = consumer.client().native_ptr();
        // SAFETY: the client is alive; the queue is destroyed in `drop`.
        let queue = unsafe { sys::rd_kafka_queue_new(client) };
        let commit = Self { queue, positions };
        // SAFETY: librdkafka copies the list, and keeps a reference to the queue while it needs one.
        match unsafe { sys::rd_kafka_commit_queue(client, list.ptr(), queue, None, ptr::null_mut()) } {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(commit),
            error => Err(error.into()),
        }
    }

    /// Waits up to `timeout` for the answer, which has a verdict for each of the positions, in
    /// their order; `None`: it has not come.
    pub(super) fn answer(&self, timeout: Duration) -> Option<Vec<Verdict>> {
        let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue is ours.
        let event = unsafe { sys::rd_kafka_queue_poll(self.queue, millis) };
        if event.is_null() {
            return None;
        }
        // SAFETY: the event is ours until destroyed, and is not used afterwards.
        let (all, each) = unsafe {
            let answer = (sys::rd_kafka_event_error(event), errors(event));
            sys::rd_kafka_event_destroy(event);
            answer
        };
        let verdict = |position: &Position| {
            let at = (&*position.partition.topic, position.partition.number);
            let own = each.iter().find(|(topic, number, _)| (topic.as_str(), *number) == at);
            match own.map_or(all, |(.., error)| if is_error(*error) { *error } else { all }) {
                error if is_error(error) => Err(error.into()),
                _ => Ok(()),
            }
        };
        Some(self.positions.iter().map(verdict).collect())
    }
}

/// What became of one position of a commit.
pub(super) type Verdict = Result<(), RDKafkaErrorCode>;

fn is_error(error: RDKafkaRespErr) -> bool {
    error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR
}

/// The error of each partition of a commit's answer.
///
/// # Safety
/// `event` is an event that has not been destroyed.
unsafe fn errors(event: *mut sys::rd_kafka_event_t) -> Vec<(String, i32, RDKafkaRespErr)> {
    // SAFETY: by the contract above; the event keeps owning the list.
    let list = unsafe { sys::rd_kafka_event_topic_partition_list(event) };
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: it lives as long as the event.
    let elements = unsafe { elements(list) };
    let error = |element: &sys::rd_kafka_topic_partition_t| {
        // SAFETY: the topic of an element is a text that ends with a NUL.
        let topic = unsafe { CStr::from_ptr(element.topic) }.to_string_lossy().into_owned();
        (topic, element.partition, element.err)
    };
    elements.iter().map(error).collect()
}

impl Drop for Commit {
    fn drop(&mut self) {
        // SAFETY: made in `start`; an answer that comes later is discarded by librdkafka.
        unsafe { sys::rd_kafka_queue_destroy(self.queue) }
    }
}

// SAFETY: librdkafka's queues may be used from any thread.
unsafe impl Send for Commit {}

/// Whether the group counts on this consumer, which may have no partition all the same.
pub(super) fn is_member(client: *mut sys::rd_kafka_t) -> bool {
    // SAFETY: the caller's client is alive; what it returns is ours, unless null, and not used once destroyed.
    unsafe {
        let metadata = sys::rd_kafka_consumer_group_metadata(client);
        if metadata.is_null() {
            return false;
        }
        // Both protocols count from 1; below that it is still to join, or left.
        let generation = sys::rd_kafka_consumer_group_metadata_generation_id(metadata);
        sys::rd_kafka_consumer_group_metadata_destroy(metadata);
        generation > 0
    }
}

/// How a consumer group stands, in librdkafka's words, and how many members it has, whichever protocol
/// it speaks. Blocks for up to `timeout`.
pub(super) fn members(
    client: *mut sys::rd_kafka_t,
    group: &CStr,
    timeout: Duration,
) -> Result<(String, usize), String> {
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let mut name = group.as_ptr();
    // SAFETY: the caller's client is alive. Options and queue are ours until destroyed below; librdkafka copies the
    // one name and keeps references of its own to what it needs longer.
    let (queue, event) = unsafe {
        let operation = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS;
        let options = sys::rd_kafka_AdminOptions_new(client, operation);
        sys::rd_kafka_AdminOptions_set_request_timeout(options, millis, ptr::null_mut(), 0);
        let queue = sys::rd_kafka_queue_new(client);
        sys::rd_kafka_DescribeConsumerGroups(client, &mut name, 1, options, queue);
        sys::rd_kafka_AdminOptions_destroy(options);
        (queue, sys::rd_kafka_queue_poll(queue, millis))
    };
    // SAFETY: both are ours, and not used afterwards; an event that is null may not be destroyed.
    unsafe {
        let told = if event.is_null() { Err("no answer in time".to_owned()) } else { group_described(event) };
        if !event.is_null() {
            sys::rd_kafka_event_destroy(event);
        }
        sys::rd_kafka_queue_destroy(queue);
        told
    }
}

/// The one group in the answer to a description.
///
/// # Safety
/// `event` is an answer to DescribeConsumerGroups that has not been destroyed.
unsafe fn group_described(event: *mut sys::rd_kafka_event_t) -> Result<(String, usize), String> {
    // SAFETY: by the contract above; what is read belongs to the event, and its texts end with a NUL.
    unsafe {
        if is_error(sys::rd_kafka_event_error(event)) {
            return Err(text(sys::rd_kafka_event_error_string(event)));
        }
        let result = sys::rd_kafka_event_DescribeConsumerGroups_result(event);
        if result.is_null() {
            return Err("an answer to another question".to_owned());
        }
        let mut count = 0;
        let groups = sys::rd_kafka_DescribeConsumerGroups_result_groups(result, &mut count);
        if groups.is_null() || count == 0 {
            return Err("an answer without the group".to_owned());
        }
        let group = *groups;
        let error = sys::rd_kafka_ConsumerGroupDescription_error(group);
        if !error.is_null() && is_error(sys::rd_kafka_error_code(error)) {
            return Err(text(sys::rd_kafka_error_string(error)));
        }
        let state = sys::rd_kafka_ConsumerGroupDescription_state(group);
        let members = sys::rd_kafka_ConsumerGroupDescription_member_count(group);
        Ok((text(sys::rd_kafka_consumer_group_state_name(state)), members))
    }
}

/// # Safety
/// `text` is null, or ends with a NUL and lives while this is called.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return "no words".to_owned();
    }
    // SAFETY: by the contract above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// How the in-process broker keeps time with its groups.
#[cfg(feature = "embedded")]
pub(super) struct GroupTimes {
    /// How long it waits for further members before a group's first generation.
    pub delay: Duration,
    /// How often members of the `consumer` protocol call, and so hear of new partitions.
    pub heartbeat: Duration,
    /// How long such a member may be silent before its partitions go to others.
    pub session: Duration,
}

/// Sets them, for groups that come later.
#[cfg(feature = "embedded")]
pub(super) fn group_times(client: *mut sys::rd_kafka_t, times: &GroupTimes) {
    let millis = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the client is alive and owns the cluster it was configured with.
    unsafe {
        let cluster = sys::rd_kafka_handle_mock_cluster(client);
        if !cluster.is_null() {
            sys::rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, millis(times.delay));
            sys::rd_kafka_mock_set_group_consumer_heartbeat_interval_ms(cluster, millis(times.heartbeat));
            sys::rd_kafka_mock_set_group_consumer_session_timeout_ms(cluster, millis(times.session));
        }
    }
}

/// Raises a fatal error, as brokers do that know nothing of an idempotent producer any more.
#[cfg(all(test, feature = "embedded"))]
pub(super) fn fail_for_good(client: *mut sys::rd_kafka_t) {
    let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    // SAFETY: the client is alive, and the text ends with a NUL.
    unsafe { sys::rd_kafka_test_fatal_error(client, error, c"for a test".as_ptr()) };
}

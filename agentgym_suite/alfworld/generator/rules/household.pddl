; The rules of a generated household.  Action names, their parameters and the predicates are
; those every ALFWorld game file uses; a text of its own belongs to each wording (wordings.toml).

(define (domain household)
  (:requirements :adl :typing :action-costs)

  (:types agent location receptacle object otype rtype)

  ; the kinds that rules speak of by name; all others are declared by the game
  (:constants
    FridgeType MicrowaveType SinkBasinType - rtype
    ButterKnifeType KnifeType - otype)

  (:predicates
    ; what a thing or a piece of furniture is
    (objectType ?o - object ?t - otype)
    (receptacleType ?r - receptacle ?t - rtype)
    (canContain ?t - rtype ?u - otype)
    (openable ?r - receptacle)
    (pickupable ?o - object)
    (cleanable ?o - object)
    (coolable ?o - object)
    (heatable ?o - object)
    (sliceable ?o - object)
    (toggleable ?o - object)
    (isReceptacleObject ?o - object)

    ; where everything is
    (holds ?a - agent ?o - object)
    (holdsAny ?a - agent)
    (inReceptacle ?o - object ?r - receptacle)
    (inReceptacleObject ?i - object ?o - object)
    (receptacleAtLocation ?r - receptacle ?l - location)
    (objectAtLocation ?o - object ?l - location)
    (atLocation ?a - agent ?l - location)

    ; what has been done
    (opened ?r - receptacle)
    (checked ?x)
    (isClean ?o - object)
    (isCool ?o - object)
    (isHot ?o - object)
    (isOn ?o - object)
    (isSliced ?o - object)
    (isToggled ?o - object))

  (:functions (total-cost) - number)

  ; --- moving about

  (:action GotoLocation
    :parameters (?a - agent ?lStart - location ?lEnd - location ?r - receptacle)
    :precondition (and (receptacleAtLocation ?r ?lEnd) (atLocation ?a ?lStart))
    :effect (and
      (atLocation ?a ?lEnd)
      (not (atLocation ?a ?lStart))
      (increase (total-cost) 2)))

  (:action OpenObject
    :parameters (?a - agent ?l - location ?r - receptacle)
    :precondition (and
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l)
      (not (opened ?r))
      (openable ?r))
    :effect (and (checked ?r) (opened ?r) (increase (total-cost) 1)))

  (:action CloseObject
    :parameters (?a - agent ?l - location ?r - receptacle)
    :precondition (and
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l)
      (opened ?r)
      (openable ?r))
    :effect (and (not (opened ?r)) (increase (total-cost) 1)))

  ; --- carrying: one thing at a time, never through a closed door

  (:action PickupObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
    :precondition (and
      (inReceptacle ?o ?r)
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l)
      (or (opened ?r) (not (openable ?r)))
      (pickupable ?o)
      (not (holdsAny ?a)))
    :effect (and
      (holdsAny ?a)
      (holds ?a ?o)
      (not (objectAtLocation ?o ?l))
      (not (inReceptacle ?o ?r))
      (increase (total-cost) 1)))

  (:action PutObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle ?ot - otype ?rt - rtype)
    :precondition (and
      (canContain ?rt ?ot)
      (receptacleType ?r ?rt)
      (objectType ?o ?ot)
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l)
      (or (opened ?r) (not (openable ?r)))
      (holds ?a ?o))
    :effect (and
      (not (holdsAny ?a))
      (not (holds ?a ?o))
      (objectAtLocation ?o ?l)
      (inReceptacle ?o ?r)
      (increase (total-cost) 1)))

  ; --- changing what is held, or what stands here

  (:action CoolObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and
      (holds ?a ?o)
      (coolable ?o)
      (receptacleType ?r FridgeType)
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l))
    :effect (and (not (isHot ?o)) (isCool ?o) (increase (total-cost) 3)))

  (:action HeatObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and
      (holds ?a ?o)
      (heatable ?o)
      (receptacleType ?r MicrowaveType)
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l))
    :effect (and (not (isCool ?o)) (isHot ?o) (increase (total-cost) 3)))

  (:action CleanObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and
      (holds ?a ?o)
      (cleanable ?o)
      (receptacleType ?r SinkBasinType)
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l))
    :effect (and (isClean ?o) (increase (total-cost) 3)))

  (:action SliceObject
    :parameters (?a - agent ?l - location ?co - object ?ko - object)
    :precondition (and
      (holds ?a ?ko)
      (or (objectType ?ko ButterKnifeType) (objectType ?ko KnifeType))
      (sliceable ?co)
      (objectAtLocation ?co ?l)
      (atLocation ?a ?l))
    :effect (and (isSliced ?co) (increase (total-cost) 3)))

  (:action ToggleObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
    :precondition (and
      (inReceptacle ?o ?r)
      (toggleable ?o)
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l))
    :effect (and
      (isToggled ?o)
      (when (not (isOn ?o)) (isOn ?o))
      (when (isOn ?o) (not (isOn ?o)))
      (increase (total-cost) 1)))

  ; --- looking closer

  (:action examineObject
    :parameters (?a - agent ?o - object)
    :precondition (holds ?a ?o)
    :effect (checked ?o))

  (:action examineReceptacle
    :parameters (?a - agent ?r - receptacle)
    :precondition (exists (?here - location)
      (and (receptacleAtLocation ?r ?here) (atLocation ?a ?here)))
    :effect (checked ?r))

  (:action inventory
    :parameters (?a - agent)
    :precondition ()
    :effect (checked ?a))

  (:action look
    :parameters (?a - agent ?l - location)
    :precondition (atLocation ?a ?l)
    :effect (checked ?l))
@help_action@)
